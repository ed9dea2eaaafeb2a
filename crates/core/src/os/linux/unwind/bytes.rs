//! Numbers as tables have them, one after the other.

use super::dwarf::eh_pe;

/// The rest of a table that is left to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    at: usize,
    end: usize,
}

impl Bytes {
    /// # Safety
    /// The range is readable for as long as this or a part of it is used.
    pub const unsafe fn new(start: usize, end: usize) -> Bytes {
        Bytes { at: start, end }
    }

    pub fn is_empty(self) -> bool {
        self.at >= self.end
    }

    pub fn address(self) -> usize {
        self.at
    }

    /// Takes the next `bytes` as a part.
    pub fn part(&mut self, bytes: usize) -> Option<Bytes> {
        let after = self.at.checked_add(bytes).filter(|after| *after <= self.end)?;
        let part = Bytes { at: self.at, end: after };
        self.at = after;
        Some(part)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let part = self.part(N)?;
        // SAFETY: inside the range, which is readable.
        Some(unsafe { core::ptr::with_exposed_provenance::<[u8; N]>(part.at).read_unaligned() })
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_ne_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_ne_bytes)
    }

    /// LEB128, seven bits a byte.
    pub fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    pub fn signed(&mut self) -> Option<i64> {
        let before = *self;
        let value = self.unsigned()? as i64;
        let bits = 7 * (self.at - before.at) as u32;
        let unused = 64u32.saturating_sub(bits);
        Some(value.wrapping_shl(unused).wrapping_shr(unused))
    }

    /// A number in one of the encodings of `DW_EH_PE_*`; `header` is what some are relative to.
    pub fn encoded(&mut self, encoding: u8, header: usize) -> Option<usize> {
        if encoding == eh_pe::OMIT {
            return None;
        }
        let base = match encoding & eh_pe::BASE {
            eh_pe::ABSPTR => 0,
            eh_pe::PCREL => self.at,
            eh_pe::DATAREL => header,
            _ => return None,
        };
        let value = self.plain(encoding)?;
        let address = if value == 0 { 0 } else { base.wrapping_add(value) };
        if encoding & eh_pe::INDIRECT == 0 {
            return Some(address);
        }
        // Only personalities are so, and those are skipped.
        Some(0)
    }

    /// A pointer in an encoding, without what it is relative to.
    pub fn plain(&mut self, encoding: u8) -> Option<usize> {
        Some(match encoding & eh_pe::FORM {
            eh_pe::ABSPTR | eh_pe::UDATA8 | eh_pe::SDATA8 => self.u64()? as usize,
            eh_pe::ULEB128 => self.unsigned()? as usize,
            eh_pe::UDATA2 => self.u16()? as usize,
            eh_pe::UDATA4 => self.u32()? as usize,
            eh_pe::SLEB128 => self.signed()? as usize,
            eh_pe::SDATA2 => self.u16()? as i16 as usize,
            eh_pe::SDATA4 => self.i32()? as usize,
            _ => return None,
        })
    }
}
