//! Events, and the bytes that they are in a section.

use crate::varint;
use rustc_hash::FxHashMap;

/// A thread, numbered from 1 in the order in which the trace first met them; 0 is the process.
pub type StreamId = u32;

/// The stream of what concerns the process: samples of its memory.
pub const PROCESS: StreamId = 0;

/// An allocated block: the thread that allocated it, and how many that thread had allocated before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    pub stream: StreamId,
    pub ordinal: u64,
}

/// An event of a thread. Each of `Malloc`, `Calloc`, `Aligned`, `Realloc` and `ReallocUnknown` begins the next object of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Malloc {
        bytes: u64,
    },
    Calloc {
        bytes: u64,
    },
    Aligned {
        bytes: u64,
        log2_alignment: u8,
    },
    Realloc {
        from: Object,
        bytes: u64,
    },
    Free {
        object: Object,
    },
    /// A free of a block that was allocated before the trace began, or whose allocation was lost.
    FreeUnknown,
    ReallocUnknown {
        bytes: u64,
    },
    /// So many events were lost here.
    Gap {
        events: u64,
    },
    Name {
        name: String,
    },
    ThreadEnd,
    /// The bytes that the process held in memory, and the faults since it began.
    Memory {
        resident: u64,
        minor_faults: u64,
        major_faults: u64,
    },
    /// An event of a later minor version.
    Unknown,
}

impl Event {
    /// The bytes of the object that begins, if one does.
    pub fn begins(&self) -> Option<u64> {
        match *self {
            Event::Malloc { bytes }
            | Event::Calloc { bytes }
            | Event::Aligned { bytes, .. }
            | Event::Realloc { bytes, .. }
            | Event::ReallocUnknown { bytes } => Some(bytes),
            _ => None,
        }
    }

    /// The object that ends, if one that is known does.
    pub fn ends(&self) -> Option<Object> {
        match *self {
            Event::Free { object } | Event::Realloc { from: object, .. } => Some(object),
            _ => None,
        }
    }
}

const FREE: u64 = 0;
const MALLOC: u64 = 1;
const FREE_OTHER: u64 = 2;
const CALLOC: u64 = 3;
const ALIGNED: u64 = 4;
const REALLOC: u64 = 5;
const REALLOC_OTHER: u64 = 6;
const NOTE: u64 = 7;

const TIME: u64 = 0;
const GAP: u64 = 1;
const NAME: u64 = 2;
const THREAD_END: u64 = 3;
const MEMORY: u64 = 4;
const FREE_UNKNOWN: u64 = 5;
const REALLOC_UNKNOWN: u64 = 6;
const SKIP: u64 = 7;

/// The context that the bytes of a section refer to: the same for writer and reader.
pub struct Context {
    pub stream: StreamId,
    /// The ordinal of the next allocation of this stream.
    pub next: u64,
    /// For each other stream the ordinal after the last that was named.
    after_last: FxHashMap<StreamId, u64>,
}

/// The item at one place of a section.
pub enum Item {
    Event(Event),
    /// Ticks since the last one.
    Time(u64),
}

fn head(bytes: &mut Vec<u8>, kind: u64, value: u64) {
    // A size that needs more than 61 bits cannot have been allocated.
    varint::put(bytes, value.min(u64::MAX >> 3) << 3 | kind);
}

fn note(bytes: &mut Vec<u8>, kind: u64, rest: u64) {
    head(bytes, NOTE, rest.min(u64::MAX >> 6) << 3 | kind);
}

pub fn put_time(bytes: &mut Vec<u8>, ticks: u64) {
    note(bytes, TIME, ticks);
}

impl Context {
    pub fn new(stream: StreamId, next: u64) -> Self {
        Context { stream, next, after_last: FxHashMap::default() }
    }

    fn distance(&mut self, object: Object) -> i64 {
        let after = self.after_last.insert(object.stream, object.ordinal + 1).unwrap_or(0);
        object.ordinal.wrapping_sub(after) as i64
    }

    fn object(&mut self, stream: StreamId, distance: i64) -> Option<Object> {
        let after = self.after_last.get(&stream).copied().unwrap_or(0);
        let ordinal = after.checked_add_signed(distance)?;
        self.after_last.insert(stream, ordinal.checked_add(1)?);
        Some(Object { stream, ordinal })
    }

    fn age_of(&self, object: Object) -> Option<u64> {
        (object.stream == self.stream).then(|| self.next.checked_sub(object.ordinal + 1)).flatten()
    }

    #[inline(always)]
    fn own(&self, age: u64) -> Option<Object> {
        Some(Object { stream: self.stream, ordinal: self.next.checked_sub(age.checked_add(1)?)? })
    }

    pub fn put(&mut self, bytes: &mut Vec<u8>, event: &Event) {
        match event {
            Event::Malloc { bytes: size } => head(bytes, MALLOC, *size),
            Event::Calloc { bytes: size } => head(bytes, CALLOC, *size),
            Event::Aligned { bytes: size, log2_alignment } => {
                head(bytes, ALIGNED, *size);
                bytes.push(*log2_alignment);
            }
            Event::Free { object } => match self.age_of(*object) {
                Some(age) => head(bytes, FREE, age),
                None => {
                    head(bytes, FREE_OTHER, object.stream.into());
                    varint::put_signed(bytes, self.distance(*object));
                }
            },
            Event::Realloc { from, bytes: size } => match self.age_of(*from) {
                Some(age) => {
                    head(bytes, REALLOC, *size);
                    varint::put(bytes, age);
                }
                None => {
                    head(bytes, REALLOC_OTHER, *size);
                    varint::put(bytes, from.stream.into());
                    varint::put_signed(bytes, self.distance(*from));
                }
            },
            Event::FreeUnknown => note(bytes, FREE_UNKNOWN, 0),
            Event::ReallocUnknown { bytes: size } => note(bytes, REALLOC_UNKNOWN, *size),
            Event::Gap { events } => note(bytes, GAP, *events),
            Event::Name { name } => {
                note(bytes, NAME, name.len() as u64);
                bytes.extend_from_slice(name.as_bytes());
            }
            Event::ThreadEnd => note(bytes, THREAD_END, 0),
            Event::Memory { resident, minor_faults, major_faults } => {
                note(bytes, MEMORY, 0);
                for value in [resident, minor_faults, major_faults] {
                    varint::put(bytes, *value);
                }
            }
            Event::Unknown => note(bytes, SKIP, 0),
        }
        self.next += u64::from(event.begins().is_some());
    }

    /// Takes what stands at the front; none where the bytes make no sense. Always a part of its caller: an event that is handed over
    /// through memory, written in parts and read whole, costs more than all else that is done with it.
    #[inline(always)]
    pub fn take(&mut self, bytes: &mut &[u8]) -> Option<Item> {
        let head = varint::take(bytes)?;
        let value = head >> 3;
        let event = match head & 7 {
            FREE => Event::Free { object: self.own(value)? },
            MALLOC => {
                self.next += 1;
                Event::Malloc { bytes: value }
            }
            FREE_OTHER => Event::Free { object: self.take_other(value, bytes)? },
            rare => return self.take_rare(rare, value, bytes),
        };
        Some(Item::Event(event))
    }

    #[inline(never)]
    fn take_rare(&mut self, kind: u64, value: u64, bytes: &mut &[u8]) -> Option<Item> {
        let event = match kind {
            CALLOC => Event::Calloc { bytes: value },
            ALIGNED => Event::Aligned { bytes: value, log2_alignment: take_alignment(bytes)? },
            REALLOC => Event::Realloc { from: self.own(varint::take(bytes)?)?, bytes: value },
            REALLOC_OTHER => {
                let stream = varint::take(bytes)?;
                Event::Realloc { from: self.take_other(stream, bytes)?, bytes: value }
            }
            _ => match take_note(value, bytes)? {
                Item::Event(event) => event,
                time => return Some(time),
            },
        };
        self.next += u64::from(event.begins().is_some());
        Some(Item::Event(event))
    }

    fn take_other(&mut self, stream: u64, bytes: &mut &[u8]) -> Option<Object> {
        let distance = varint::take_signed(bytes)?;
        self.object(stream.try_into().ok()?, distance)
    }
}

/// An alignment that an address can have.
fn take_alignment(bytes: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*byte).filter(|log2| u32::from(*log2) < u64::BITS)
}

fn take_slice<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length.try_into().ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn take_note(value: u64, bytes: &mut &[u8]) -> Option<Item> {
    let rest = value >> 3;
    Some(Item::Event(match value & 7 {
        TIME => return Some(Item::Time(rest)),
        GAP => Event::Gap { events: rest },
        NAME => Event::Name { name: String::from_utf8_lossy(take_slice(bytes, rest)?).into_owned() },
        THREAD_END => Event::ThreadEnd,
        MEMORY => {
            let mut next = || varint::take(bytes);
            Event::Memory { resident: next()?, minor_faults: next()?, major_faults: next()? }
        }
        FREE_UNKNOWN => Event::FreeUnknown,
        REALLOC_UNKNOWN => Event::ReallocUnknown { bytes: rest },
        _ => take_slice(bytes, rest).map(|_| Event::Unknown)?,
    }))
}
