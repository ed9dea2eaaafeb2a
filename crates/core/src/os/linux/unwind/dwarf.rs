//! Numbers of DWARF 5 by their names there, without the prefix `DW_`.

/// Instructions that change the row of rules (section 7.24). The first three have an operand in their lowest six bits.
pub mod cfa {
    pub const ADVANCE_LOC: u8 = 0x1;
    pub const OFFSET: u8 = 0x2;
    pub const RESTORE: u8 = 0x3;
    pub const NOP: u8 = 0x00;
    pub const ADVANCE_LOC1: u8 = 0x02;
    pub const ADVANCE_LOC2: u8 = 0x03;
    pub const ADVANCE_LOC4: u8 = 0x04;
    pub const OFFSET_EXTENDED: u8 = 0x05;
    pub const RESTORE_EXTENDED: u8 = 0x06;
    pub const UNDEFINED: u8 = 0x07;
    pub const SAME_VALUE: u8 = 0x08;
    pub const REGISTER: u8 = 0x09;
    pub const REMEMBER_STATE: u8 = 0x0a;
    pub const RESTORE_STATE: u8 = 0x0b;
    pub const DEF_CFA: u8 = 0x0c;
    pub const DEF_CFA_REGISTER: u8 = 0x0d;
    pub const DEF_CFA_OFFSET: u8 = 0x0e;
    pub const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub const EXPRESSION: u8 = 0x10;
    pub const OFFSET_EXTENDED_SF: u8 = 0x11;
    pub const DEF_CFA_SF: u8 = 0x12;
    pub const DEF_CFA_OFFSET_SF: u8 = 0x13;
    pub const VAL_OFFSET: u8 = 0x14;
    pub const VAL_OFFSET_SF: u8 = 0x15;
    pub const VAL_EXPRESSION: u8 = 0x16;
    /// GNU's; the size of arguments on the stack, which only exceptions need.
    pub const GNU_ARGS_SIZE: u8 = 0x2e;
}

/// Steps of expressions (section 7.7.1).
pub mod op {
    pub const ADDR: u8 = 0x03;
    pub const DEREF: u8 = 0x06;
    pub const CONST1U: u8 = 0x08;
    pub const CONST1S: u8 = 0x09;
    pub const CONST2U: u8 = 0x0a;
    pub const CONST2S: u8 = 0x0b;
    pub const CONST4U: u8 = 0x0c;
    pub const CONST4S: u8 = 0x0d;
    pub const CONST8U: u8 = 0x0e;
    pub const CONST8S: u8 = 0x0f;
    pub const CONSTU: u8 = 0x10;
    pub const CONSTS: u8 = 0x11;
    pub const DUP: u8 = 0x12;
    pub const DROP: u8 = 0x13;
    pub const AND: u8 = 0x1a;
    pub const MINUS: u8 = 0x1c;
    pub const MUL: u8 = 0x1e;
    pub const OR: u8 = 0x21;
    pub const PLUS: u8 = 0x22;
    pub const PLUS_UCONST: u8 = 0x23;
    pub const SHL: u8 = 0x24;
    pub const SHR: u8 = 0x25;
    pub const EQ: u8 = 0x29;
    pub const GE: u8 = 0x2a;
    pub const GT: u8 = 0x2b;
    pub const LE: u8 = 0x2c;
    pub const LT: u8 = 0x2d;
    pub const NE: u8 = 0x2e;
    pub const LIT0: u8 = 0x30;
    pub const LIT31: u8 = 0x4f;
    pub const BREG0: u8 = 0x70;
    pub const BREG31: u8 = 0x8f;
}

/// How pointers in exception tables are written: the form, and what they are relative to (LSB, "DWARF Exception Header
/// Encoding").
pub mod eh_pe {
    pub const ABSPTR: u8 = 0x00;
    pub const ULEB128: u8 = 0x01;
    pub const UDATA2: u8 = 0x02;
    pub const UDATA4: u8 = 0x03;
    pub const UDATA8: u8 = 0x04;
    pub const SLEB128: u8 = 0x09;
    pub const SDATA2: u8 = 0x0a;
    pub const SDATA4: u8 = 0x0b;
    pub const SDATA8: u8 = 0x0c;
    pub const FORM: u8 = 0x0f;
    pub const PCREL: u8 = 0x10;
    pub const DATAREL: u8 = 0x30;
    pub const BASE: u8 = 0x70;
    pub const INDIRECT: u8 = 0x80;
    pub const OMIT: u8 = 0xff;
}
