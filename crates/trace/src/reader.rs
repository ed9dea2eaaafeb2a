//! Reads a trace, an epoch at a time.

use crate::block::{Block, Header, INDEX_MAGIC, Kind, TAIL_BYTES, read_preamble};
use crate::event::{Event, Item, StreamId};
use crate::raw::{RawEpoch, RawSection};
use crate::writer::TICK;
use crate::{Error, Result, varint};
use std::io::{Read, Seek, SeekFrom};

/// An event, and about when it was: between the times that stand around it in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Since the trace began.
    pub nanoseconds: u64,
    pub event: Event,
}

/// The events of one stream in an epoch.
#[derive(Clone, Debug)]
pub struct Section {
    pub stream: StreamId,
    /// The ordinal of the first object that begins here.
    pub first_ordinal: u64,
    pub events: Vec<Timed>,
}

/// An interval of the trace.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// In nanoseconds since the trace began.
    pub first: u64,
    pub last: u64,
    pub sections: Vec<Section>,
}

/// Reads from any input, forward; an input that can be sought can be entered anywhere.
pub struct Reader<R> {
    input: R,
    header: Header,
    at: u64,
    ended: bool,
    /// Bytes of epochs that were read, before they were unpacked and behind.
    packed: u64,
    raw: u64,
}

impl<R: Read> Reader<R> {
    pub fn new(mut input: R) -> Result<Self> {
        let (header, at) = read_preamble(&mut input)?;
        Ok(Reader { input, header, at, ended: false, packed: 0, raw: 0 })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next epoch; none at the end of a complete trace. A trace that was cut off ends with [`Error::CutOff`].
    pub fn next_epoch(&mut self) -> Result<Option<Epoch>> {
        let Some(raw) = self.next_raw()? else { return Ok(None) };
        let (first, last) = raw.times();
        let sections = raw.sections()?.iter().map(|raw| section(raw)).collect::<Option<_>>();
        Ok(Some(Epoch { first, last, sections: sections.ok_or(raw.damaged())? }))
    }

    /// The same before its events are taken apart.
    pub fn next_raw(&mut self) -> Result<Option<RawEpoch>> {
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        let Some((block, packed)) = Block::read(&mut self.input, at)? else {
            return Err(Error::CutOff { at, within: "the epochs: it has no index" });
        };
        if block.kind == Kind::Index {
            self.ended = true;
            return Ok(None);
        }
        self.at += (crate::block::BLOCK_BYTES + packed.len()) as u64;
        self.packed = self.packed.saturating_add(packed.len() as u64);
        self.raw = self.raw.saturating_add(block.raw_bytes.into());
        if !crate::block::can_be(self.packed, self.raw) {
            return Err(Error::Damaged { at, what: "it unpacks to far more than any recording" });
        }
        let raw = block.unpack(&packed, at)?;
        Ok(Some(RawEpoch::new(block, at, raw)))
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Goes to the first epoch that has anything at or after a time; false where the trace ends before it. A trace without an
    /// index is read from where it stands.
    pub fn seek(&mut self, nanoseconds: u64) -> Result<bool> {
        let Some(index_at) = self.index_at()? else { return Ok(true) };
        self.input.seek(SeekFrom::Start(index_at))?;
        let damaged = |what| Error::Damaged { at: index_at, what };
        let (block, packed) = Block::read(&mut self.input, index_at)?
            .filter(|(block, _)| block.kind == Kind::Index)
            .ok_or(damaged("the index is not where the end says"))?;
        let raw = block.unpack(&packed, index_at)?;
        let (mut rest, mut at, mut first) = (&raw[..], 0u64, 0u64);
        while !rest.is_empty() {
            let mut entry = || {
                at = at.checked_add(varint::take(&mut rest)?)?;
                first = first.wrapping_add_signed(varint::take_signed(&mut rest)?);
                let last = first.checked_add(varint::take(&mut rest)?)?;
                varint::take(&mut rest).map(|_| last)
            };
            let last = entry().ok_or(damaged("the index makes no sense"))?;
            if last.saturating_mul(TICK) >= nanoseconds {
                self.input.seek(SeekFrom::Start(at))?;
                (self.at, self.ended) = (at, false);
                return Ok(true);
            }
        }
        self.ended = true;
        Ok(false)
    }

    fn index_at(&mut self) -> Result<Option<u64>> {
        let end = self.input.seek(SeekFrom::End(0))?;
        let mut tail = [0; TAIL_BYTES as usize];
        let found = end >= self.at + TAIL_BYTES && {
            self.input.seek(SeekFrom::Start(end - TAIL_BYTES))?;
            self.input.read_exact(&mut tail)?;
            &tail[8..] == INDEX_MAGIC
        };
        let at = u64::from_le_bytes(std::array::from_fn(|byte| tail[byte]));
        self.input.seek(SeekFrom::Start(self.at))?;
        Ok((found && at < end).then_some(at))
    }
}

fn section(raw: &RawSection<'_>) -> Option<Section> {
    let mut events: Vec<Timed> = Vec::with_capacity(raw.events as usize);
    let (mut time, mut from, mut is_right) = (raw.start, 0, true);
    raw.walk(|item| match item {
        Item::Event(event) => events.push(Timed { nanoseconds: time, event }),
        Item::Time(span) => {
            spread(&mut events[from..], time, span);
            from = events.len();
            match time.checked_add(span) {
                Some(next) => time = next,
                None => is_right = false,
            }
        }
    })?;
    is_right.then_some(Section { stream: raw.stream, first_ordinal: raw.first_ordinal, events })
}

/// Gives events between two times one each, evenly.
fn spread(events: &mut [Timed], time: u64, span: u64) {
    let parts = events.len() as u128;
    for (index, event) in events.iter_mut().enumerate() {
        event.nanoseconds = time.saturating_add((u128::from(span) * index as u128 / parts.max(1)) as u64);
    }
}
