//! Reads the older format `.art`: 16 bytes a record, all threads in one order of time. Little endian.
//!
//! ```text
//!   0 "ART1"   4 u32 version 1   8 u64 records   16 u64 slots   24 f64 ticks a second   32 u64 threads
//!   40 threads x [u8; 16] names
//!   then records: u32 slot  u32 bytes  u16 thread  u8 operation  u8 log2(alignment)  u32 dt in 16 ticks
//! ```
//!
//! Operations are 1 malloc, 2 free, 3 calloc, 4 aligned, and a realloc in two: 5 the old object ends, 6 the new one begins.

use crate::event::{Event, Object, StreamId};
use crate::writer::{Writer, Written};
use crate::{Error, Result};
use rustc_hash::FxHashMap;
use std::io::{ErrorKind, Read, Write};

const RECORD_BYTES: usize = 16;
const TICKS_PER_DT: f64 = 16.0;

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub records: u64,
    /// Frees and reallocations of objects whose allocation was not recorded.
    pub unknown: u64,
    pub written: Written,
}

/// Writes a whole `.art` trace, not compressed, into a new one.
pub fn import<W: Write>(input: impl Read, mut writer: Writer<W>) -> Result<(W, Imported)> {
    let mut imported = read(input, |stream, nanoseconds, event| writer.event(stream, nanoseconds, &event))?;
    let (out, written) = writer.finish()?;
    imported.written = written;
    Ok((out, imported))
}

/// Calls `take` with the stream, the time and the event for all that a `.art` trace has, not compressed. Each thread's
/// name comes before its first event, and before those of all others.
pub fn read(mut input: impl Read, take: impl FnMut(StreamId, u64, Event) -> Result<()>) -> Result<Imported> {
    let mut art = Art::begin(&mut input, take)?;
    for record in 0..art.records {
        let mut raw = [0; RECORD_BYTES];
        read_exact(&mut input, &mut raw, 40 + record * RECORD_BYTES as u64, "the records")?;
        art.record(record, raw)?;
    }
    for thread in 0..art.ending.len() {
        art.end_realloc(thread)?;
    }
    Ok(art.imported)
}

struct Art<F> {
    take: F,
    records: u64,
    nanoseconds_per_dt: f64,
    /// Counted as a whole number: sums of fractions drift.
    dts: u64,
    slots: u64,
    /// The slots that hold an object; a header may say any number.
    of_slot: FxHashMap<usize, Object>,
    /// How many objects each thread has begun.
    begun: Vec<u64>,
    /// The object that each thread's realloc has ended and not replaced yet; unknown objects too.
    ending: Vec<Option<Option<Object>>>,
    imported: Imported,
}

fn stream_of(thread: usize) -> StreamId {
    thread as StreamId + 1
}

impl<F: FnMut(StreamId, u64, Event) -> Result<()>> Art<F> {
    fn begin(input: &mut impl Read, mut take: F) -> Result<Self> {
        let mut raw = [0; 40];
        read_exact(input, &mut raw, 0, "the header")?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| raw[at + byte]));
        let (version, frequency) = (number(0) >> 32, f64::from_bits(number(24)));
        let (slots, threads) = (number(16), number(32));
        let refuse = |what: String| Err(Error::Record { record: 0, what });
        if &raw[..4] != b"ART1" {
            return refuse("the file does not begin with ART1".into());
        } else if version != 1 {
            return refuse(format!("version {version}; this program reads version 1"));
        } else if !(frequency.is_finite() && frequency > 0.0) {
            return refuse(format!("a clock of {frequency} ticks a second"));
        } else if threads > 1 << 16 || slots >= u64::from(u32::MAX) {
            return refuse(format!("{threads} threads and {slots} slots: too many"));
        }
        for thread in 0..threads as usize {
            let mut name = [0; 16];
            read_exact(input, &mut name, 40 + 16 * thread as u64, "the names of threads")?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            let name = String::from_utf8_lossy(name).into_owned();
            take(stream_of(thread), 0, Event::Name { name })?;
        }
        Ok(Art {
            take,
            records: number(8),
            nanoseconds_per_dt: TICKS_PER_DT * 1e9 / frequency,
            dts: 0,
            slots,
            of_slot: FxHashMap::default(),
            begun: vec![0; threads as usize],
            ending: vec![None; threads as usize],
            imported: Imported::default(),
        })
    }

    fn record(&mut self, record: u64, raw: [u8; RECORD_BYTES]) -> Result<()> {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| raw[at + byte]));
        let refuse = |what: String| Error::Record { record, what };
        let (slot, bytes) = (number(0) as usize, u64::from(number(4)));
        let (thread, operation) = (usize::from(u16::from_le_bytes([raw[8], raw[9]])), raw[10]);
        self.dts = self.dts.saturating_add(number(12).into());
        self.imported.records += 1;
        if thread >= self.ending.len() {
            return Err(refuse(format!("thread {thread} of {}", self.ending.len())));
        }
        if slot as u64 >= self.slots {
            return Err(refuse(format!("slot {slot} of {}", self.slots)));
        }
        let stream = stream_of(thread);
        let event = match operation {
            2 | 5 => {
                let object = self.of_slot.remove(&slot);
                self.imported.unknown += u64::from(object.is_none());
                self.end_realloc(thread)?;
                if operation == 5 {
                    self.ending[thread] = Some(object);
                    return Ok(());
                }
                object.map_or(Event::FreeUnknown, |object| Event::Free { object })
            }
            1 | 3 | 4 | 6 => {
                if operation != 6 {
                    self.end_realloc(thread)?;
                }
                self.of_slot.insert(slot, Object { stream, ordinal: self.begun[thread] });
                self.begun[thread] += 1;
                match (operation, self.ending[thread].take()) {
                    (3, _) => Event::Calloc { bytes },
                    (4, _) if raw[11] >= 64 => return Err(refuse(format!("an alignment of 2^{}", raw[11]))),
                    (4, _) => Event::Aligned { bytes, log2_alignment: raw[11] },
                    (6, Some(Some(from))) => Event::Realloc { from, bytes },
                    (6, Some(None)) => Event::ReallocUnknown { bytes },
                    _ => Event::Malloc { bytes },
                }
            }
            other => return Err(refuse(format!("there is no operation {other}; it should be 1 to 6"))),
        };
        let now = self.now();
        (self.take)(stream, now, event)
    }

    fn now(&self) -> u64 {
        (self.dts as f64 * self.nanoseconds_per_dt) as u64
    }

    /// A realloc whose second half never came has freed its object.
    fn end_realloc(&mut self, thread: usize) -> Result<()> {
        let Some(object) = self.ending[thread].take() else { return Ok(()) };
        let event = object.map_or(Event::FreeUnknown, |object| Event::Free { object });
        let now = self.now();
        (self.take)(stream_of(thread), now, event)
    }
}

fn read_exact(input: &mut impl Read, room: &mut [u8], at: u64, within: &'static str) -> Result<()> {
    input.read_exact(room).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => Error::CutOff { at, within },
        _ => error.into(),
    })
}
