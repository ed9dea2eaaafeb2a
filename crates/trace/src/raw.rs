//! An epoch as it stands in the file, for who reads events one by one and keeps none.

use crate::block::Block;
use crate::event::{Context, Item, StreamId};
use crate::writer::TICK;
use crate::{Error, Result, varint};

/// More objects than a thread can begin in a lifetime.
const MOST_ORDINAL: u64 = 1 << 56;

/// An interval of the trace, unpacked.
pub struct RawEpoch {
    block: Block,
    at: u64,
    raw: Vec<u8>,
}

/// The events of one stream in it.
#[derive(Clone, Copy)]
pub struct RawSection<'a> {
    pub stream: StreamId,
    /// The ordinal of the first object that begins here.
    pub first_ordinal: u64,
    pub events: u64,
    /// In nanoseconds since the trace began.
    pub start: u64,
    bytes: &'a [u8],
}

impl RawEpoch {
    pub(crate) fn new(block: Block, at: u64, raw: Vec<u8>) -> Self {
        RawEpoch { block, at, raw }
    }

    pub fn events(&self) -> u64 {
        self.block.events.into()
    }

    /// Before packing; each event has one at least.
    pub fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// First and last time, in nanoseconds since the trace began.
    pub fn times(&self) -> (u64, u64) {
        (self.block.first, self.block.last)
    }

    pub fn sections(&self) -> Result<Vec<RawSection<'_>>> {
        let (mut rest, mut sections) = (&self.raw[..], Vec::new());
        for _ in 0..self.block.sections {
            sections.push(section(&self.block, &mut rest).ok_or(self.damaged())?);
        }
        if rest.is_empty() { Ok(sections) } else { Err(self.damaged()) }
    }

    /// The error about an epoch whose events make no sense.
    pub fn damaged(&self) -> Error {
        Error::Damaged { at: self.at, what: "an epoch makes no sense" }
    }
}

fn section<'a>(block: &Block, rest: &mut &'a [u8]) -> Option<RawSection<'a>> {
    let stream = varint::take(rest)?.try_into().ok()?;
    let first_ordinal = varint::take(rest)?;
    let events = varint::take(rest)?;
    let start = varint::take(rest)?.checked_mul(TICK)?.checked_add(block.first)?;
    let length = varint::take(rest)?.try_into().ok()?;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    // Each event has a byte at least, and no stream comes near the last number.
    (events <= bytes.len() as u64 && first_ordinal <= MOST_ORDINAL).then_some(RawSection {
        stream,
        first_ordinal,
        events,
        start,
        bytes,
    })
}

impl RawSection<'_> {
    /// Calls `take` for everything in it; a time comes as nanoseconds since the last. None where the bytes make no sense.
    #[inline(always)]
    pub fn walk(&self, mut take: impl FnMut(Item)) -> Option<()> {
        let mut context = Context::new(self.stream, self.first_ordinal);
        let (mut bytes, mut count) = (self.bytes, 0);
        while !bytes.is_empty() {
            let item = match context.take(&mut bytes)? {
                Item::Time(ticks) => Item::Time(ticks.checked_mul(TICK)?),
                event => {
                    count += 1;
                    event
                }
            };
            take(item);
        }
        (count == self.events).then_some(())
    }
}
