//! The row of rules that holds at one instruction: the result of a small program.

use super::bytes::Bytes;
use super::dwarf::cfa;
use super::tables::Frame;
use super::{CODE, REGISTERS};

/// How the value of a register before the call is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As it is.
    Same,
    Undefined,
    /// In memory, so far from the frame's base; or that address itself.
    At(i64),
    Is(i64),
    Register(u8),
    /// By the expression at this address.
    AtExpression(usize),
    IsExpression(usize),
}

/// The frame's base: the stack pointer before the call (`CFA`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Unknown,
    Register {
        number: u8,
        offset: i64,
    },
    /// At this address.
    Expression(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub base: Base,
    pub rules: [Rule; REGISTERS],
}

impl Row {
    /// The base becomes so far from the register that it is counted from.
    fn set_offset(&mut self, value: i64) -> Option<()> {
        let Base::Register { offset, .. } = &mut self.base else { return None };
        *offset = value;
        Some(())
    }

    /// Registers that nobody passes on, such as those of vectors, are left out.
    fn set(&mut self, number: u64, rule: Rule) {
        if let Some(place) = self.rules.get_mut(number as usize) {
            *place = rule;
        }
    }
}

/// Rows put aside at a time. Compilers put one aside; more make the stack of this function longer than a
/// thread's small one should bear.
const MOST_KEPT: usize = 2;

struct Machine<'a> {
    frame: &'a Frame,
    row: Row,
    /// The row that `frame.common` makes.
    first: Row,
    kept: [Row; MOST_KEPT],
    depth: usize,
    at: usize,
}

/// The row at `frame.code`; none where the program has instructions that are not known. By itself, so that its rows are
/// not on the stack while memory is read.
#[inline(never)]
pub fn row(frame: &Frame) -> Option<Row> {
    if frame.return_address as usize > CODE {
        return None;
    }
    let row = Row { base: Base::Unknown, rules: [Rule::Same; REGISTERS] };
    let mut machine = Machine { frame, row, first: row, kept: [row; MOST_KEPT], depth: 0, at: frame.start };
    machine.run(frame.common)?;
    machine.first = machine.row;
    machine.run(frame.program)?;
    Some(machine.row)
}

impl Machine<'_> {
    fn run(&mut self, mut program: Bytes) -> Option<()> {
        while !program.is_empty() && self.at <= self.frame.code {
            let instruction = program.u8()?;
            let operand = u64::from(instruction & 0x3f);
            match instruction >> 6 {
                cfa::ADVANCE_LOC => self.advance(operand),
                cfa::OFFSET => {
                    let offset = self.data(program.unsigned()? as i64);
                    self.row.set(operand, Rule::At(offset));
                }
                cfa::RESTORE => self.restore(operand),
                _ => self.extended(instruction, &mut program)?,
            }
        }
        Some(())
    }

    fn advance(&mut self, units: u64) {
        self.at = self.at.wrapping_add(units.wrapping_mul(self.frame.code_unit) as usize);
    }

    fn data(&self, units: i64) -> i64 {
        units.wrapping_mul(self.frame.data_unit)
    }

    fn restore(&mut self, number: u64) {
        let rule = self.first.rules.get(number as usize).copied();
        self.row.set(number, rule.unwrap_or(Rule::Same));
    }

    fn extended(&mut self, instruction: u8, program: &mut Bytes) -> Option<()> {
        match instruction {
            cfa::NOP => {}
            cfa::ADVANCE_LOC1 => self.advance(u64::from(program.u8()?)),
            cfa::ADVANCE_LOC2 => self.advance(u64::from(program.u16()?)),
            cfa::ADVANCE_LOC4 => self.advance(u64::from(program.u32()?)),
            cfa::OFFSET_EXTENDED => {
                let (number, offset) = (program.unsigned()?, program.unsigned()? as i64);
                self.row.set(number, Rule::At(self.data(offset)));
            }
            cfa::RESTORE_EXTENDED => self.restore(program.unsigned()?),
            cfa::UNDEFINED => self.row.set(program.unsigned()?, Rule::Undefined),
            cfa::SAME_VALUE => self.row.set(program.unsigned()?, Rule::Same),
            cfa::REGISTER => {
                let (number, other) = (program.unsigned()?, register(program)?);
                self.row.set(number, Rule::Register(other));
            }
            cfa::REMEMBER_STATE => {
                *self.kept.get_mut(self.depth)? = self.row;
                self.depth += 1;
            }
            cfa::RESTORE_STATE => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = *self.kept.get(self.depth)?;
            }
            cfa::DEF_CFA => {
                let (number, offset) = (register(program)?, program.unsigned()? as i64);
                self.row.base = Base::Register { number, offset };
            }
            cfa::DEF_CFA_REGISTER => {
                let number = register(program)?;
                let Base::Register { number: place, .. } = &mut self.row.base else { return None };
                *place = number;
            }
            cfa::DEF_CFA_OFFSET => self.row.set_offset(program.unsigned()? as i64)?,
            cfa::DEF_CFA_EXPRESSION => self.row.base = Base::Expression(expression(program)?),
            cfa::EXPRESSION => {
                let number = program.unsigned()?;
                self.row.set(number, Rule::AtExpression(expression(program)?));
            }
            cfa::OFFSET_EXTENDED_SF => {
                let (number, offset) = (program.unsigned()?, program.signed()?);
                self.row.set(number, Rule::At(self.data(offset)));
            }
            cfa::DEF_CFA_SF => {
                let (number, offset) = (register(program)?, program.signed()?);
                self.row.base = Base::Register { number, offset: self.data(offset) };
            }
            cfa::DEF_CFA_OFFSET_SF => {
                let offset = program.signed()?;
                self.row.set_offset(self.data(offset))?;
            }
            cfa::VAL_OFFSET | cfa::VAL_OFFSET_SF => {
                let number = program.unsigned()?;
                let is_signed = instruction == cfa::VAL_OFFSET_SF;
                let offset = if is_signed { program.signed()? } else { program.unsigned()? as i64 };
                self.row.set(number, Rule::Is(self.data(offset)));
            }
            cfa::VAL_EXPRESSION => {
                let number = program.unsigned()?;
                self.row.set(number, Rule::IsExpression(expression(program)?));
            }
            cfa::GNU_ARGS_SIZE => _ = program.unsigned()?,
            _ => return None,
        }
        Some(())
    }
}

fn register(program: &mut Bytes) -> Option<u8> {
    u8::try_from(program.unsigned()?).ok()
}

/// The address of an expression, which begins with its length.
fn expression(program: &mut Bytes) -> Option<usize> {
    let address = program.address();
    let length = program.unsigned()?;
    program.part(length as usize)?;
    Some(address)
}
