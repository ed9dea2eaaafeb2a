//! The memory of a process, and the note by which a library of ours says where its statistics lie.
//!
//! The file of the memory is opened once and stays with that memory: a process that ends or becomes another program
//! gives an end, also where its number is used again.

use crate::process::Process;
use crate::resources::pages_in_memory;
use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::FileExt;
use vcm_foreign::{file, room};

/// No table is longer that a look reads as a whole, whatever its owner says.
const MOST_AT_ONCE: u64 = 64 << 20;
/// Room for so much is made without a look whether it is there.
const WITHOUT_A_LOOK: u64 = 1 << 20;

pub struct Memory {
    file: File,
    process: Process,
    /// The kernel's file about its size; opened when somebody asks.
    size: OnceCell<Option<File>>,
}

impl Memory {
    pub fn of(process: &Process) -> io::Result<Memory> {
        Self::with(process, File::options().read(true))
    }

    /// The same memory, to be written too.
    pub fn to_write(process: &Process) -> io::Result<Memory> {
        Self::with(process, File::options().read(true).write(true))
    }

    fn with(process: &Process, how: &fs::OpenOptions) -> io::Result<Memory> {
        let file = how.open(process.file("mem"))?;
        Ok(Memory { file, process: process.clone(), size: OnceCell::new() })
    }

    /// Bytes of it that are in memory, as the kernel counts them while they come and go.
    pub fn rss(&self) -> Option<u64> {
        // The file stays open: to open it costs four times what reading it does.
        let file = self.size.get_or_init(|| File::open(self.process.file("statm")).ok()).as_ref()?;
        let mut text = [0; 128];
        let length = file.read_at(&mut text, 0).ok()?;
        pages_in_memory(text.get(..length)?)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_at(bytes, at)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(Error::new(ErrorKind::NotFound, "the process has ended")),
        }
    }

    /// Fills `into`; `InvalidData` where no process has such an address, `NotFound` where the memory is gone with its process.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let end = at.checked_add(into.len() as u64).filter(|end| *end <= i64::MAX as u64);
        end.ok_or_else(|| Error::new(ErrorKind::InvalidData, "it contains an invalid address"))?;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at + done as u64)? {
                0 => return Err(Error::new(ErrorKind::NotFound, "the process has ended")),
                count => done += count,
            }
        }
        Ok(())
    }

    /// So many bytes, as the process says: there is room for what it has, and for no more.
    pub fn bytes(&self, at: u64, count: u64) -> io::Result<Vec<u8>> {
        if count > WITHOUT_A_LOOK {
            // If its end is not mapped, the rest is not either, or the count is a lie.
            self.read(at.saturating_add(count - 1), &mut [0])?;
        }
        let mut bytes = room::zeroed(count, MOST_AT_ONCE)?;
        self.read(at, &mut bytes).map(|()| bytes)
    }
}

/// A table in the memory of a process, of any length that it says: the parts asked for are read, a piece at a time.
pub struct Table<'a> {
    memory: &'a Memory,
    at: u64,
    bytes: u64,
    piece: Vec<u8>,
    /// The place of the piece in the table.
    from: u64,
}

impl<'a> Table<'a> {
    const PIECE: u64 = 1 << 16;

    pub fn new(memory: &'a Memory, at: u64, bytes: u64) -> Self {
        Table { memory, at, bytes, piece: Vec::new(), from: 0 }
    }

    /// A byte of it; none behind its end.
    pub fn byte(&mut self, place: u64) -> io::Result<Option<u8>> {
        if place >= self.bytes {
            return Ok(None);
        }
        let held =
            |table: &Self| table.piece.get(usize::try_from(place.checked_sub(table.from)?).ok()?).copied();
        if let Some(byte) = held(self) {
            return Ok(Some(byte));
        }
        self.from = place / Self::PIECE * Self::PIECE;
        let bytes = (self.bytes - self.from).min(Self::PIECE);
        self.piece = self.memory.bytes(self.at.wrapping_add(self.from), bytes)?;
        Ok(held(self))
    }
}

/// A number of `width` bytes in bytes that were read; 0 outside them.
pub fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let Some(from) = at.checked_add(width).and_then(|end| bytes.get(at..end)) else { return 0 };
    // The widths that there are, each in one step: a look reads thousands.
    if let Ok(word) = from.try_into() {
        return u64::from_le_bytes(word);
    }
    if let Ok(word) = from.try_into() {
        return u32::from_le_bytes(word).into();
    }
    from.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The addresses of the descriptions that the loaded objects carry.
pub fn descriptions(process: &Process, memory: &Memory) -> io::Result<Vec<u64>> {
    let maps = file::of_kernel(&process.file("maps"))?;
    let starts = maps.split(|byte| *byte == b'\n').filter_map(start_of_object);
    // An object that is unmapped meanwhile, or no ELF file, has none.
    Ok(starts.filter_map(|start| of_object(memory, start).ok().flatten()).collect())
}

/// The address at which the beginning of a file is mapped.
fn start_of_object(line: &[u8]) -> Option<u64> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let is_begin = rights.starts_with('r') && offset.bytes().all(|digit| digit == b'0');
    // The kernel's own, and what is no file, has no name that begins so.
    let is_file = words.nth(2)?.starts_with('/');
    u64::from_str_radix(range.split('-').next()?, 16).ok().filter(|_| is_begin && is_file)
}

const LOAD: u64 = 1;
const NOTE: u64 = 4;
/// More than any linker makes.
const MOST_HEADERS: u64 = 128;
const MOST_NOTES: u64 = 1 << 16;

/// Goes through the program headers in memory (elf(5), 64 bits).
fn of_object(memory: &Memory, start: u64) -> io::Result<Option<u64>> {
    let header = memory.bytes(start, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (at, bytes, count) = (number(&header, 32, 8), number(&header, 54, 2), number(&header, 56, 2));
    if bytes < 56 || count > MOST_HEADERS {
        return Ok(None);
    }
    let headers = memory.bytes(start.wrapping_add(at), bytes * count)?;
    let field = |index: u64, at: usize| number(&headers, (index * bytes) as usize + at, 8);
    let kind = |index: u64| number(&headers, (index * bytes) as usize, 4);
    let first = (0..count).find(|index| kind(*index) == LOAD && field(*index, 8) == 0);
    let Some(bias) = first.map(|index| start.wrapping_sub(field(index, 16))) else { return Ok(None) };
    for index in (0..count).filter(|index| kind(*index) == NOTE) {
        let (at, length) = (bias.wrapping_add(field(index, 16)), field(index, 40).min(MOST_NOTES));
        if let Some((place, distance)) = distance_in(&memory.bytes(at, length)?) {
            return Ok(Some(at.wrapping_add(place).wrapping_add(distance)));
        }
    }
    Ok(None)
}

/// The place in these notes of the distance to the description, and the distance.
fn distance_in(notes: &[u8]) -> Option<(u64, u64)> {
    const NAME: &[u8] = b"vcmalloc\0";
    let mut at = 0;
    while at + 12 <= notes.len() {
        let (name, description) = (number(notes, at, 4) as usize, number(notes, at + 4, 4) as usize);
        let behind = at + 12 + name.next_multiple_of(4);
        if notes.get(at + 12..at + 12 + name) == Some(NAME) && number(notes, at + 8, 4) == 1 {
            return (description >= 8).then(|| (behind as u64, number(notes, behind, 8)));
        }
        at = behind + description.next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_note_is_found_among_others_and_damaged_ones_end_the_search() {
        let note = |name: &[u8], kind: u32, description: &[u8]| {
            let mut bytes = Vec::new();
            [name.len() as u32, description.len() as u32, kind]
                .iter()
                .for_each(|number| bytes.extend(number.to_le_bytes()));
            for part in [name, description] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let ours = note(b"vcmalloc\0", 1, &(-64i64).to_le_bytes());
        let both = [note(b"GNU\0", 3, &[7; 20]), ours.clone()].concat();
        assert_eq!(distance_in(&both), Some((36 + 24, -64i64 as u64)));
        assert_eq!(distance_in(&note(b"vcmalloc\0", 2, &[0; 8])), None);
        assert_eq!(distance_in(&note(b"vcmalloc\0", 1, &[0; 4])), None);
        assert_eq!(distance_in(&[0xff; 40]), None);
        assert_eq!(distance_in(ours.get(..10).unwrap()), None);
    }

    #[test]
    fn only_the_beginning_of_a_file_is_looked_at() {
        let start = |line: &str| start_of_object(line.as_bytes());
        assert_eq!(
            start("7f12a000-7f12b000 r--p 00000000 08:01 55    /usr/lib/a b.so (deleted)"),
            Some(0x7f12_a000)
        );
        assert_eq!(start("7f12a000-7f12b000 r-xp 00001000 08:01 55    /usr/lib/a.so"), None);
        assert_eq!(start("7f12a000-7f12b000 ---p 00000000 08:01 55    /usr/lib/a.so"), None);
        assert_eq!(start("7f12a000-7f12b000 r-xp 00000000 00:00 0     [vdso]"), None);
        assert_eq!(start("7f12a000-7f12b000 rw-p 00000000 00:00 0 "), None);
        assert_eq!(start(""), None);
    }
}
