//! The stack of calls by the tables that compilers leave for exceptions, read by ourselves (decision 0025).
//!
//! An unwinder that serves exceptions cannot serve an allocator: it calls malloc under its locks, and ends the
//! process over tables that it cannot follow. This one takes no lock where glibc has `_dl_find_object`,
//! allocates nothing and believes nothing: each page of a stack is read only after the system said that it can
//! be. Code without tables, such as a compiler's at run time, ends the walk.
//!
//! The format is that of the Linux Standard Base, "Exception Frames", and of DWARF 5, section 6.4.

mod bytes;
mod dwarf;
mod expression;
mod objects;
mod rows;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;

pub use objects::FindObject;
use objects::Object;

use super::stack::is_readable;
use core::ops::Range;
use rows::{Base, Rule};
use tables::Frame;

/// Registers by their number in DWARF: 7 is the stack pointer, 16 the return address.
const REGISTERS: usize = 17;
const STACK: usize = 7;
const CODE: usize = 16;

type Registers = [usize; REGISTERS];

/// Calls that are walked over in search of those that are asked for.
const MOST_CALLS: usize = 128;
/// No frame is larger: a size beyond it comes of a wrong table.
const LARGEST_FRAME: usize = 64 << 20;
const PAGE: usize = 4096;

/// The stack's words, each page asked for once.
struct Memory {
    /// The page that is known to be readable.
    readable: usize,
    /// Valgrind tells its user of each question, so there the tables are believed.
    is_asked: bool,
}

impl Memory {
    /// For a walk from this stack pointer, whose page is in use.
    fn new(stack: usize) -> Memory {
        Memory { readable: stack & !(PAGE - 1), is_asked: !is_under_valgrind() }
    }

    fn word(&mut self, address: usize) -> Option<usize> {
        let last = address.checked_add(size_of::<usize>() - 1)?;
        for page in [address, last].map(|at| at & !(PAGE - 1)) {
            if page != self.readable && (page == 0 || self.is_asked && !is_readable(page)) {
                return None;
            }
            self.readable = page;
        }
        let word = core::ptr::with_exposed_provenance::<usize>(address);
        // SAFETY: on readable pages; whatever is there is only a number.
        Some(unsafe { word.read_unaligned() })
    }
}

/// The addresses of the loaded object that has code at `address`.
pub fn object_of(address: usize, find: Option<FindObject>) -> Option<Range<usize>> {
    objects::object_of(address, find).map(|object| object.range)
}

/// As valgrind defines it (`valgrind.h`): rotations that do nothing by themselves, and a question.
fn is_under_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    let question = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: changes nothing but the answer.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") question.as_ptr(), inout("rdx") answer, inout("rdi") 0usize => _, options(nostack)
        );
    }
    answer != 0
}

/// Return addresses of this thread's calls, innermost first, without those in `own`; returns how many.
#[inline(never)]
pub fn stack(frames: &mut [usize], own: &Range<usize>, find: Option<FindObject>) -> usize {
    let mut registers: Registers = [0; REGISTERS];
    // The registers that a call preserves, by their numbers, and where we are.
    // SAFETY: writes into the array.
    unsafe {
        core::arch::asm!(
            "mov [{0} + 8 * 3], rbx",
            "mov [{0} + 8 * 6], rbp",
            "mov [{0} + 8 * 7], rsp",
            "mov [{0} + 8 * 12], r12",
            "mov [{0} + 8 * 13], r13",
            "mov [{0} + 8 * 14], r14",
            "mov [{0} + 8 * 15], r15",
            "lea {1}, [rip]",
            "mov [{0} + 8 * 16], {1}",
            in(reg) registers.as_mut_ptr(), out(reg) _, options(nostack, preserves_flags)
        );
    }
    walk(registers, frames, own, find)
}

fn walk(
    mut registers: Registers,
    frames: &mut [usize],
    own: &Range<usize>,
    find: Option<FindObject>,
) -> usize {
    let mut memory = Memory::new(registers[STACK]);
    let (mut depth, mut is_exact) = (0, true);
    let mut object: Option<Object> = None;
    for _ in 0..MOST_CALLS {
        let code = registers[CODE];
        if code == 0 {
            break;
        }
        if !own.contains(&code) {
            let Some(place) = frames.get_mut(depth) else { break };
            *place = code;
            depth += 1;
        }
        // A return address may be the first of the next function; an interrupted instruction is where it is.
        let code = code - usize::from(!is_exact);
        // Callers often lie in the same object.
        if !object.as_ref().is_some_and(|object| object.range.contains(&code)) {
            object = objects::object_of(code, find);
        }
        let Some(frame) = object.as_ref().and_then(|object| tables::find(object, code)) else { break };
        is_exact = frame.is_signal;
        let Some(caller) = caller(&frame, &registers, &mut memory) else { break };
        registers = caller;
    }
    depth
}

/// The registers as they were when the function of `frame` was called.
fn caller(frame: &Frame, registers: &Registers, memory: &mut Memory) -> Option<Registers> {
    let row = rows::row(frame)?;
    let base = match row.base {
        Base::Unknown => return None,
        Base::Register { number, offset } => {
            registers.get(number as usize)?.wrapping_add_signed(offset as isize)
        }
        Base::Expression(program) => expression::value(program, registers, None, memory)?,
    };
    // A stack grows downwards, so callers lie above. A handler may have a stack of its own, and so may what finds its
    // caller's by another register: split stacks, and code that goes over to a longer one.
    let is_counted = matches!(row.base, Base::Register { number, .. } if number as usize == STACK);
    let is_far = base.wrapping_sub(registers[STACK]).wrapping_sub(1) >= LARGEST_FRAME;
    if is_counted && !frame.is_signal && is_far {
        return None;
    }
    let mut caller = *registers;
    caller[STACK] = base;
    for (number, rule) in row.rules.iter().enumerate() {
        let value = match *rule {
            Rule::Same => continue,
            // The outermost call has no return address.
            Rule::Undefined => 0,
            Rule::At(offset) => memory.word(base.wrapping_add_signed(offset as isize))?,
            Rule::Is(offset) => base.wrapping_add_signed(offset as isize),
            Rule::Register(other) => *registers.get(other as usize)?,
            Rule::AtExpression(program) => {
                let address = expression::value(program, registers, Some(base), memory)?;
                memory.word(address)?
            }
            Rule::IsExpression(program) => expression::value(program, registers, Some(base), memory)?,
        };
        *caller.get_mut(number)? = value;
    }
    // If nothing is said of the return address, there is none.
    let is_told = !matches!(row.rules.get(frame.return_address as usize)?, Rule::Same);
    caller[CODE] = if is_told { *caller.get(frame.return_address as usize)? } else { 0 };
    Some(caller)
}
