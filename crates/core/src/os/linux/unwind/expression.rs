//! Values that need a computation: the frames of realigned stacks, of the linker's stubs and of signal handlers.

use super::bytes::Bytes;
use super::dwarf::op;
use super::{Memory, Registers};

/// Numbers on an expression's stack.
const DEPTH: usize = 8;
/// Steps of an expression: compilers write a dozen.
const MOST_STEPS: usize = 64;

struct Stack {
    values: [usize; DEPTH],
    depth: usize,
}

impl Stack {
    fn push(&mut self, value: usize) -> Option<()> {
        *self.values.get_mut(self.depth)? = value;
        self.depth += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<usize> {
        self.depth = self.depth.checked_sub(1)?;
        self.values.get(self.depth).copied()
    }

    fn combine(&mut self, by: impl Fn(usize, usize) -> usize) -> Option<()> {
        let (second, first) = (self.pop()?, self.pop()?);
        self.push(by(first, second))
    }
}

/// The longest number that says how long an expression is.
const LENGTH_BYTES: usize = 10;

/// The value of the expression at `address`, which begins with `start` on its stack; none where it has steps that are
/// not known.
#[inline(never)]
pub(super) fn value(
    address: usize,
    registers: &Registers,
    start: Option<usize>,
    memory: &mut Memory,
) -> Option<usize> {
    // SAFETY: `rows` has found it whole, its length included.
    let mut length = unsafe { Bytes::new(address, address.checked_add(LENGTH_BYTES)?) };
    let bytes = length.unsigned()? as usize;
    // SAFETY: `rows` has found so many bytes there.
    let mut program = unsafe { Bytes::new(length.address(), length.address().checked_add(bytes)?) };
    let mut stack = Stack { values: [0; DEPTH], depth: 0 };
    if let Some(start) = start {
        stack.push(start)?;
    }
    for _ in 0..MOST_STEPS {
        if program.is_empty() {
            return stack.pop();
        }
        let step = program.u8()?;
        match step {
            op::ADDR => stack.push(program.u64()? as usize)?,
            op::DEREF => {
                let address = stack.pop()?;
                stack.push(memory.word(address)?)?;
            }
            op::CONST1U => stack.push(program.u8()? as usize)?,
            op::CONST1S => stack.push(program.u8()? as i8 as usize)?,
            op::CONST2U => stack.push(program.u16()? as usize)?,
            op::CONST2S => stack.push(program.u16()? as i16 as usize)?,
            op::CONST4U => stack.push(program.u32()? as usize)?,
            op::CONST4S => stack.push(program.i32()? as usize)?,
            op::CONST8U | op::CONST8S => stack.push(program.u64()? as usize)?,
            op::CONSTU => stack.push(program.unsigned()? as usize)?,
            op::CONSTS => stack.push(program.signed()? as usize)?,
            op::DUP => {
                let value = stack.pop()?;
                stack.push(value)?;
                stack.push(value)?;
            }
            op::DROP => _ = stack.pop()?,
            op::AND => stack.combine(|first, second| first & second)?,
            op::MINUS => stack.combine(usize::wrapping_sub)?,
            op::MUL => stack.combine(usize::wrapping_mul)?,
            op::OR => stack.combine(|first, second| first | second)?,
            op::PLUS => stack.combine(usize::wrapping_add)?,
            op::PLUS_UCONST => {
                let (value, more) = (stack.pop()?, program.unsigned()?);
                stack.push(value.wrapping_add(more as usize))?;
            }
            op::SHL => stack.combine(|first, second| first.checked_shl(second as u32).unwrap_or(0))?,
            op::SHR => stack.combine(|first, second| first.checked_shr(second as u32).unwrap_or(0))?,
            op::EQ => stack.combine(|first, second| usize::from(first == second))?,
            op::GE => stack.combine(|first, second| usize::from(first as isize >= second as isize))?,
            op::GT => stack.combine(|first, second| usize::from(first as isize > second as isize))?,
            op::LE => stack.combine(|first, second| usize::from(first as isize <= second as isize))?,
            op::LT => stack.combine(|first, second| usize::from((first as isize) < second as isize))?,
            op::NE => stack.combine(|first, second| usize::from(first != second))?,
            op::LIT0..=op::LIT31 => stack.push(usize::from(step - op::LIT0))?,
            op::BREG0..=op::BREG31 => {
                let register = *registers.get(usize::from(step - op::BREG0))?;
                stack.push(register.wrapping_add_signed(program.signed()? as isize))?;
            }
            _ => return None,
        }
    }
    None
}
