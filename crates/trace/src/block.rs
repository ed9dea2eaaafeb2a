//! Preamble, blocks and the index: everything of a file but the events.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};

/// A reader takes every minor version of its major version.
pub const MAJOR: u16 = 1;
pub const MINOR: u16 = 0;

const MAGIC: &[u8; 8] = b"VCMTRACE";
pub const INDEX_MAGIC: &[u8; 8] = b"VCMINDEX";
/// The end of a complete file: where the index is, and `INDEX_MAGIC`.
pub const TAIL_BYTES: u64 = 16;

/// A header is a few lines of text; anything much longer is not one.
const MOST_HEADER_BYTES: u32 = 1 << 20;
/// An index of a very long trace; an epoch ends at about a MiB, and only the last event, a long name, may add to it.
pub const MOST_RAW_BYTES: u32 = 64 << 20;
/// A file unpacks to so many times its own length at most, beyond the first epochs: times alone, which differ, take a
/// byte for some hundred of events.
const MOST_TIMES: u64 = 256;
const FIRST_BYTES: u64 = 4 << 20;

/// Whether a trace that was read so far can have been written by somebody who recorded: else a few bytes would unpack to
/// what takes all memory and hours.
pub fn can_be(packed: u64, raw: u64) -> bool {
    raw <= FIRST_BYTES.saturating_add(packed.saturating_mul(MOST_TIMES))
}

/// The known facts of the trace's origin. Every part may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Name, version and build of the allocator that served the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<String>,
    /// The program that wrote the file, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// One in so many addresses was recorded; 1 for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_one_in: Option<u32>,
    /// The file that this one was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Epoch,
    Index,
}

impl Kind {
    fn word(self) -> u32 {
        u32::from_le_bytes(match self {
            Kind::Epoch => *b"EPOC",
            Kind::Index => *b"INDX",
        })
    }
}

/// The fixed part of a block, but its checksum.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub kind: Kind,
    pub packed_bytes: u32,
    pub raw_bytes: u32,
    pub events: u32,
    pub sections: u32,
    /// Nanoseconds since the trace began.
    pub first: u64,
    pub last: u64,
}

const CHECKED_BYTES: usize = 36;
pub const BLOCK_BYTES: usize = CHECKED_BYTES + 4;

impl Block {
    fn bytes(&self) -> [u8; CHECKED_BYTES] {
        let mut bytes = [0; CHECKED_BYTES];
        let words = [self.kind.word(), self.packed_bytes, self.raw_bytes, self.events, self.sections];
        for (room, word) in bytes.chunks_exact_mut(4).zip(words) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        for (room, time) in bytes[20..].chunks_exact_mut(8).zip([self.first, self.last]) {
            room.copy_from_slice(&time.to_le_bytes());
        }
        bytes
    }

    pub fn write(&self, out: &mut impl Write, packed: &[u8]) -> Result<()> {
        let bytes = self.bytes();
        out.write_all(&bytes)?;
        out.write_all(&checksum(&bytes, packed).to_le_bytes())?;
        out.write_all(packed)?;
        Ok(())
    }

    /// Reads a block and its packed bytes; none at the end of the file.
    pub fn read(input: &mut impl Read, at: u64) -> Result<Option<(Block, Vec<u8>)>> {
        let mut bytes = [0; BLOCK_BYTES];
        match fill(input, &mut bytes)? {
            0 => return Ok(None),
            BLOCK_BYTES => {}
            _ => return Err(Error::CutOff { at, within: "the head of a block" }),
        }
        let word = |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[index * 4 + byte]));
        let time = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let kind = [Kind::Epoch, Kind::Index].into_iter().find(|kind| kind.word() == word(0));
        let kind = kind.ok_or(Error::Damaged { at, what: "no block begins here" })?;
        let block = Block {
            kind,
            packed_bytes: word(1),
            raw_bytes: word(2),
            events: word(3),
            sections: word(4),
            first: time(20),
            last: time(28),
        };
        if block.packed_bytes > MOST_RAW_BYTES || block.raw_bytes > MOST_RAW_BYTES {
            return Err(Error::Damaged { at, what: "a block cannot be that long" });
        }
        let mut packed = vec![0; block.packed_bytes as usize];
        if fill(input, &mut packed)? < packed.len() {
            return Err(Error::CutOff { at, within: "a block" });
        }
        if checksum(&bytes[..CHECKED_BYTES], &packed) != word(9) {
            return Err(Error::Damaged { at, what: "the checksum of a block is another" });
        }
        Ok(Some((block, packed)))
    }

    /// Unpacks what `read` gave.
    pub fn unpack(&self, packed: &[u8], at: u64) -> Result<Vec<u8>> {
        let raw = zstd::bulk::decompress(packed, self.raw_bytes as usize);
        let raw = raw.map_err(|_| Error::Damaged { at, what: "a block cannot be unpacked" })?;
        if raw.len() != self.raw_bytes as usize {
            return Err(Error::Damaged { at, what: "a block is shorter than it says" });
        }
        Ok(raw)
    }
}

fn checksum(head: &[u8], packed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(packed);
    hasher.finalize()
}

/// Reads until the room is full or the input ends; the bytes read.
fn fill(input: &mut impl Read, room: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match input.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Writes the preamble; the bytes written.
pub fn write_preamble(out: &mut impl Write, header: &Header) -> Result<u64> {
    let text = serde_json::to_vec(header).map_err(std::io::Error::from)?;
    out.write_all(MAGIC)?;
    out.write_all(&MAJOR.to_le_bytes())?;
    out.write_all(&MINOR.to_le_bytes())?;
    out.write_all(&(text.len() as u32).to_le_bytes())?;
    out.write_all(&checksum(&[], &text).to_le_bytes())?;
    out.write_all(&text)?;
    Ok(20 + text.len() as u64)
}

/// Reads the preamble; the header and its bytes.
pub fn read_preamble(input: &mut impl Read) -> Result<(Header, u64)> {
    let mut bytes = [0; 20];
    let length = fill(input, &mut bytes)?;
    if length < 8 || &bytes[..8] != MAGIC {
        return Err(Error::Foreign);
    }
    let cut = |at| Error::CutOff { at, within: "the header" };
    if length < bytes.len() {
        return Err(cut(length as u64));
    }
    let major = u16::from_le_bytes([bytes[8], bytes[9]]);
    if major != MAJOR {
        return Err(Error::FutureVersion { major });
    }
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    if word(12) > MOST_HEADER_BYTES {
        return Err(Error::Damaged { at: 12, what: "a header cannot be that long" });
    }
    let mut text = vec![0; word(12) as usize];
    let length = fill(input, &mut text)?;
    if length < text.len() {
        return Err(cut(20 + length as u64));
    }
    let damaged = |what| Error::Damaged { at: 20, what };
    if checksum(&[], &text) != word(16) {
        return Err(damaged("the checksum of the header is another"));
    }
    let header = serde_json::from_slice(&text).map_err(|_| damaged("the header is no JSON object"))?;
    Ok((header, 20 + text.len() as u64))
}
