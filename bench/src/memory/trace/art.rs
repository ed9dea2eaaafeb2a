//! The `.art` format: a header, thread names, and 16 bytes a record in the order of time. Little endian.
//!
//! ```text
//!   0 "ART1"   4 u32 version 1   8 u64 records   16 u64 slots   24 f64 ticks a second   32 u64 threads
//!   40 threads x [u8; 16] names
//!   then records: u32 slot  u32 bytes  u16 thread  u8 operation  u8 log2(alignment)  u32 dt in 16 ticks
//! ```
//!
//! Slots are used again after a free. [`read`] gives every object a number of its own, which makes the order
//! that a replay has to keep plain: an object ends after it began, and nothing else.

use anyhow::{Context, Result, ensure};
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// What a record says. The numbers are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Malloc = 1,
    Free = 2,
    Calloc = 3,
    Aligned = 4,
    /// realloc, first half: the old object ends.
    ReallocFrom = 5,
    /// realloc, second half, by the same thread: the new object begins.
    ReallocTo = 6,
}

impl Operation {
    pub fn from_number(number: u8) -> Option<Self> {
        use Operation::*;
        [Malloc, Free, Calloc, Aligned, ReallocFrom, ReallocTo].into_iter().find(|one| *one as u8 == number)
    }

    pub fn ends_an_object(self) -> bool {
        matches!(self, Self::Free | Self::ReallocFrom)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub microseconds: u32,
    /// 0, 1, 2, ... in the order of allocation; never used again.
    pub object: u32,
    pub bytes: u32,
    pub thread: u16,
    pub operation: Operation,
    pub log2_alignment: u8,
}

#[derive(Debug, Default)]
pub struct Trace {
    pub threads: usize,
    pub objects: usize,
    pub records: Vec<Record>,
    /// Frees of objects whose allocation was not recorded: left out.
    pub dropped: usize,
}

const RECORD_BYTES: usize = 16;
const TICKS_PER_DT: f64 = 16.0;
const NO_OBJECT: u32 = u32::MAX;

/// Reads a file, compressed with zstd if its name says so.
pub fn read_file(path: &Path) -> Result<Trace> {
    let file = std::fs::File::open(path).with_context(|| {
        format!("cannot read the trace {}; give the path of an .art or .art.zst file", path.display())
    })?;
    let read_it = || match path.extension().is_some_and(|extension| extension == "zst") {
        true => read(BufReader::with_capacity(1 << 20, zstd::Decoder::new(file)?)),
        false => read(BufReader::with_capacity(1 << 20, file)),
    };
    read_it().with_context(|| format!("{} is not a trace that can be replayed", path.display()))
}

struct Header {
    records: u64,
    slots: u64,
    ticks_per_second: f64,
    threads: u64,
}

/// Reads a decompressed trace to its end.
pub fn read(mut input: impl Read) -> Result<Trace> {
    let header = read_header(&mut input)?;
    skip(&mut input, header.threads * 16).context("it ends within the thread names")?;
    let mut objects = Objects { of_slot: vec![NO_OBJECT; header.slots as usize], count: 0 };
    let mut trace = Trace { threads: header.threads as usize, ..Trace::default() };
    trace.records.reserve(header.records.min(1 << 26) as usize);
    let mut ticks = 0.0;
    for index in 0..header.records {
        let mut raw = [0; RECORD_BYTES];
        input
            .read_exact(&mut raw)
            .with_context(|| format!("it ends in record {index} of {}; was it cut off?", header.records))?;
        ticks += f64::from(u32::from_le_bytes([raw[12], raw[13], raw[14], raw[15]])) * TICKS_PER_DT;
        let microseconds = (ticks / header.ticks_per_second * 1e6) as u32;
        match objects.record(raw, microseconds, &header).with_context(|| format!("record {index}"))? {
            Some(record) => trace.records.push(record),
            None => trace.dropped += 1,
        }
    }
    trace.objects = objects.count as usize;
    Ok(trace)
}

fn read_header(input: &mut impl Read) -> Result<Header> {
    let mut raw = [0; 40];
    input.read_exact(&mut raw).context("it is shorter than a header")?;
    let number = |at: usize| -> u64 {
        raw[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    ensure!(&raw[..4] == b"ART1", "it does not begin with ART1");
    let version = number(0) >> 32;
    ensure!(version == 1, "its version is {version}; this program reads version 1");
    let header = Header {
        records: number(8),
        slots: number(16),
        ticks_per_second: f64::from_bits(number(24)),
        threads: number(32),
    };
    ensure!(header.ticks_per_second > 0.0, "its clock has {} ticks a second", header.ticks_per_second);
    ensure!(header.threads <= 1 << 16, "it has {} threads; at most 65,536 can be", header.threads);
    ensure!(header.slots < u64::from(u32::MAX), "it has {} object slots; that is too many", header.slots);
    Ok(header)
}

fn skip(input: &mut impl Read, bytes: u64) -> std::io::Result<()> {
    match std::io::copy(&mut input.take(bytes), &mut std::io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Which object each slot holds.
struct Objects {
    of_slot: Vec<u32>,
    count: u32,
}

impl Objects {
    /// None for the end of an object that never began.
    fn record(&mut self, raw: [u8; 16], microseconds: u32, header: &Header) -> Result<Option<Record>> {
        let number = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let (slot, bytes) = (number(0), number(4));
        let thread = u16::from_le_bytes([raw[8], raw[9]]);
        let operation = Operation::from_number(raw[10])
            .with_context(|| format!("there is no operation {}; it should be 1 to 6", raw[10]))?;
        ensure!(u64::from(thread) < header.threads, "thread {thread} of {}", header.threads);
        ensure!(raw[11] < 32, "an alignment of 2^{}", raw[11]);
        let held = self.of_slot.get_mut(slot as usize);
        let held = held.with_context(|| format!("slot {slot} of {}", header.slots))?;
        let object = if operation.ends_an_object() {
            std::mem::replace(held, NO_OBJECT)
        } else {
            *held = self.count;
            self.count += 1;
            *held
        };
        let record = Record { microseconds, object, bytes, thread, operation, log2_alignment: raw[11] };
        Ok((object != NO_OBJECT).then_some(record))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// (slot, bytes, thread, operation, dt in 16 ticks)
    pub type Line = (u32, u32, u16, u8, u32);

    /// A trace of two slots on a clock of 16 MHz: one dt is a microsecond.
    pub fn synthetic(threads: u64, lines: &[Line]) -> Vec<u8> {
        let mut bytes = b"ART1\x01\0\0\0".to_vec();
        bytes.extend((lines.len() as u64).to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        bytes.extend(16e6f64.to_le_bytes());
        bytes.extend(threads.to_le_bytes());
        (0..threads).for_each(|thread| bytes.extend([b'a' + thread as u8; 16]));
        for &(slot, size, thread, operation, dt) in lines {
            bytes.extend(slot.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(thread.to_le_bytes());
            bytes.extend([operation, 0]);
            bytes.extend(dt.to_le_bytes());
        }
        bytes
    }

    fn refusal(bytes: &[u8]) -> String {
        format!("{:#}", read(bytes).unwrap_err())
    }

    #[test]
    fn a_slot_that_is_used_again_is_another_object() {
        let lines = [(1, 100, 0, 1, 5), (1, 100, 1, 2, 7), (1, 200, 0, 3, 1), (0, 300, 1, 1, 0)];
        let trace = read(&synthetic(2, &lines)[..]).unwrap();
        let seen: Vec<_> =
            trace.records.iter().map(|one| (one.object, one.bytes, one.microseconds)).collect();
        assert_eq!(seen, [(0, 100, 5), (0, 100, 12), (1, 200, 13), (2, 300, 13)]);
        assert_eq!((trace.threads, trace.objects, trace.dropped), (2, 3, 0));
        assert_eq!(trace.records[2].operation, Operation::Calloc);
    }

    #[test]
    fn a_realloc_ends_one_object_and_begins_another() {
        let lines = [(0, 100, 0, 1, 1), (0, 100, 0, 5, 1), (1, 150, 0, 6, 1), (1, 150, 0, 2, 1)];
        let trace = read(&synthetic(1, &lines)[..]).unwrap();
        assert_eq!(trace.records.iter().map(|one| one.object).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }

    #[test]
    fn the_free_of_an_object_that_was_never_seen_is_left_out_and_counted() {
        let trace = read(&synthetic(1, &[(0, 9, 0, 2, 1), (0, 9, 0, 1, 1), (0, 9, 0, 2, 1)])[..]).unwrap();
        assert_eq!((trace.records.len(), trace.dropped), (2, 1));
    }

    #[test]
    fn bad_input_is_refused_with_the_reason() {
        let good = synthetic(1, &[(0, 9, 0, 1, 1)]);
        assert!(refusal(&good[..20]).contains("shorter than a header"));
        assert!(refusal(&good[..50]).contains("thread names"));
        assert!(refusal(&good[..good.len() - 1]).contains("record 0 of 1"));
        assert!(refusal(&[b"BRT1", &good[4..]].concat()).contains("ART1"));
        assert!(refusal(&[b"ART1\x02", &good[5..]].concat()).contains("version 1"));
        assert!(refusal(&synthetic(1, &[(0, 9, 0, 7, 1)])).contains("no operation 7"));
        assert!(refusal(&synthetic(1, &[(0, 9, 1, 1, 1)])).contains("thread 1 of 1"));
        assert!(refusal(&synthetic(1, &[(2, 9, 0, 1, 1)])).contains("slot 2 of 2"));
    }

    #[test]
    fn a_compressed_file_reads_like_the_plain_one() {
        let directory = tempfile::tempdir().unwrap();
        let plain = synthetic(1, &[(0, 9, 0, 1, 1)]);
        let packed = directory.path().join("small.art.zst");
        std::fs::write(&packed, zstd::encode_all(&plain[..], 1).unwrap()).unwrap();
        assert_eq!(read_file(&packed).unwrap().records, read(&plain[..]).unwrap().records);
        let missing = read_file(&directory.path().join("none.art")).unwrap_err().to_string();
        assert!(missing.contains("none.art") && missing.contains("give the path"), "{missing}");
    }
}
