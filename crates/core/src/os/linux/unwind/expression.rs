//! Values that need a computation: the frames of realigned stacks, of the linker's stubs and of signal handlers.

use super::bytes::Bytes;
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
    // SAFETY: as above.
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
            0x03 => stack.push(program.u64()? as usize)?,
            0x06 => {
                let address = stack.pop()?;
                stack.push(memory.word(address)?)?;
            }
            0x08 => stack.push(program.u8()? as usize)?,
            0x09 => stack.push(program.u8()? as i8 as usize)?,
            0x0a => stack.push(program.u16()? as usize)?,
            0x0b => stack.push(program.u16()? as i16 as usize)?,
            0x0c => stack.push(program.u32()? as usize)?,
            0x0d => stack.push(program.i32()? as usize)?,
            0x0e | 0x0f => stack.push(program.u64()? as usize)?,
            0x10 => stack.push(program.unsigned()? as usize)?,
            0x11 => stack.push(program.signed()? as usize)?,
            0x12 => {
                let value = stack.pop()?;
                stack.push(value)?;
                stack.push(value)?;
            }
            0x13 => _ = stack.pop()?,
            0x1a => stack.combine(|first, second| first & second)?,
            0x1c => stack.combine(usize::wrapping_sub)?,
            0x1e => stack.combine(usize::wrapping_mul)?,
            0x21 => stack.combine(|first, second| first | second)?,
            0x22 => stack.combine(usize::wrapping_add)?,
            0x23 => {
                let (value, more) = (stack.pop()?, program.unsigned()?);
                stack.push(value.wrapping_add(more as usize))?;
            }
            0x24 => stack.combine(|first, second| first.checked_shl(second as u32).unwrap_or(0))?,
            0x25 => stack.combine(|first, second| first.checked_shr(second as u32).unwrap_or(0))?,
            0x29 => stack.combine(|first, second| usize::from(first == second))?,
            0x2a => stack.combine(|first, second| usize::from(first as isize >= second as isize))?,
            0x2b => stack.combine(|first, second| usize::from(first as isize > second as isize))?,
            0x2c => stack.combine(|first, second| usize::from(first as isize <= second as isize))?,
            0x2d => stack.combine(|first, second| usize::from((first as isize) < second as isize))?,
            0x2e => stack.combine(|first, second| usize::from(first != second))?,
            0x30..=0x4f => stack.push(usize::from(step - 0x30))?,
            0x70..=0x8f => {
                let register = *registers.get(usize::from(step - 0x70))?;
                stack.push(register.wrapping_add_signed(program.signed()? as isize))?;
            }
            _ => return None,
        }
    }
    None
}
