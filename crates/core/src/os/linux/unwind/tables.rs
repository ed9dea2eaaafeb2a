//! The rules that the tables of an object have for one of its functions.

use super::bytes::Bytes;
use super::dwarf::eh_pe;
use super::objects::{Object, Segments};

/// A function's rules for unwinding at one of its instructions.
#[derive(Clone, Copy)]
pub struct Frame {
    /// The address that we are at, and the start of the function.
    pub code: usize,
    pub start: usize,
    /// The rules at the beginning of every function of its kind, and their changes on the way.
    pub common: Bytes,
    pub program: Bytes,
    pub code_unit: u64,
    pub data_unit: i64,
    /// The column of the return address.
    pub return_address: u64,
    /// The kernel made this frame, to call a signal handler.
    pub is_signal: bool,
}

/// Signed differences of 32 bits, to the start of the table's header: every linker writes these.
const SORTED_TABLE: u8 = eh_pe::DATAREL | eh_pe::SDATA4;
const PAIR_BYTES: usize = 8;
/// A length of 32 bits with this value is none.
const LONG: u32 = u32::MAX;

/// The rules for `code`, which lies in this object; none where its tables have none, or lead out of it.
pub fn find(object: &Object, code: usize) -> Option<Frame> {
    frame_at(entry_for(object, code)?, code, &object.segments)
}

/// The description of the last function that begins at or before `code`.
fn entry_for(object: &Object, code: usize) -> Option<usize> {
    let header = object.tables;
    let mut table = object.segments.bytes_from(header)?;
    let [version, frames, counts, sorted] = [table.u8()?, table.u8()?, table.u8()?, table.u8()?];
    if version != 1 || sorted != SORTED_TABLE {
        return None;
    }
    table.encoded(frames, header)?;
    let count = table.encoded(counts, header)?;
    let pair = |index: usize| {
        let mut rest = table;
        rest.part(index.checked_mul(PAIR_BYTES)?)?;
        Some((header.wrapping_add(rest.i32()? as usize), header.wrapping_add(rest.i32()? as usize)))
    };
    let (mut first, mut after) = (0, count);
    while first < after {
        let middle = first + (after - first) / 2;
        if pair(middle)?.0 <= code { first = middle + 1 } else { after = middle }
    }
    Some(pair(first.checked_sub(1)?)?.1)
}

/// The contents of the entry at `address`, behind its length.
fn entry(address: usize, segments: &Segments) -> Option<Bytes> {
    let mut rest = segments.bytes_from(address)?;
    let length = rest.u32()?;
    if length == 0 || length == LONG { None } else { rest.part(length as usize) }
}

pub(super) fn frame_at(address: usize, code: usize, segments: &Segments) -> Option<Frame> {
    let mut body = entry(address, segments)?;
    let here = body.address();
    let common = Common::at(here.wrapping_sub(body.u32()? as usize), segments)?;
    let start = body.encoded(common.encoding, 0)?;
    let bytes = body.plain(common.encoding)?;
    if code.wrapping_sub(start) >= bytes {
        return None;
    }
    if common.is_augmented {
        let more = body.unsigned()?;
        body.part(more as usize)?;
    }
    Some(Frame { code, start, program: body, ..common.frame })
}

/// The part that many functions share.
struct Common {
    encoding: u8,
    is_augmented: bool,
    frame: Frame,
}

impl Common {
    fn at(address: usize, segments: &Segments) -> Option<Common> {
        let mut body = entry(address, segments)?;
        let (is_common, version) = (body.u32()? == 0, body.u8()?);
        if !is_common || !matches!(version, 1 | 3) {
            return None;
        }
        let mut letters = body;
        while body.u8()? != 0 {}
        let (code_unit, data_unit) = (body.unsigned()?, body.signed()?);
        let return_address = if version == 1 { u64::from(body.u8()?) } else { body.unsigned()? };
        let (mut encoding, mut is_signal) = (eh_pe::ABSPTR, false);
        // The data of the letters behind a 'z': as long as it tells, whatever they mean.
        let mut said = None;
        while let letter @ 1.. = letters.u8()? {
            match (letter, &mut said) {
                (b'z', None) => {
                    let length = body.unsigned()? as usize;
                    said = Some(body.part(length)?);
                }
                (b'R', Some(said)) => encoding = said.u8()?,
                (b'L', Some(said)) => _ = said.u8()?,
                (b'P', Some(said)) => {
                    let encoding = said.u8()?;
                    said.encoded(encoding, 0)?;
                }
                (b'S', Some(_)) => is_signal = true,
                // Of no use here, and so is all behind it.
                (_, Some(_)) => break,
                _ => return None,
            }
        }
        let is_augmented = said.is_some();
        let frame = Frame {
            code: 0,
            start: 0,
            common: body,
            program: body,
            code_unit,
            data_unit,
            return_address,
            is_signal,
        };
        Some(Common { encoding, is_augmented, frame })
    }
}
