//! Writes a trace, an epoch at a time.

use crate::block::{self, Block, Header, INDEX_MAGIC, Kind, write_preamble};
use crate::event::{Context, Event, StreamId, put_time};
use crate::{Error, Result, varint};
use rustc_hash::FxHashMap;
use std::io::Write;

/// Times are counted in ticks of so many nanoseconds.
pub const TICK: u64 = 64;
/// A time stands before every so many events.
const EVENTS_PER_TIME: u32 = 32;
/// And before and behind a pause of so many nanoseconds: a stream that does little would else be known to the second.
const PAUSE: u64 = 10_000_000;
/// An epoch is written when its sections reach so many bytes.
const EPOCH_BYTES: usize = 1 << 20;
const ZSTD_LEVEL: i32 = 3;

/// The figures of what went into a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub events: u64,
    pub epochs: u64,
    /// Of all events, before they were packed.
    pub raw_bytes: u64,
    pub file_bytes: u64,
}

/// The events of one stream in this epoch.
struct Section {
    context: Context,
    first_ordinal: u64,
    /// In ticks.
    start: u64,
    last_time: u64,
    latest: u64,
    events: u32,
    since_time: u32,
    bytes: Vec<u8>,
}

impl Section {
    fn new(stream: StreamId, first_ordinal: u64, start: u64) -> Self {
        Section {
            context: Context::new(stream, first_ordinal),
            first_ordinal,
            start,
            last_time: start,
            latest: start,
            events: 0,
            since_time: 0,
            bytes: Vec::new(),
        }
    }

    #[inline]
    fn put(&mut self, ticks: u64, event: &Event) {
        // Within a stream it is the order that is right: a clock that steps back is held.
        if ticks.saturating_sub(self.latest) >= PAUSE / TICK {
            self.pause(ticks);
        }
        self.latest = self.latest.max(ticks);
        if self.since_time == EVENTS_PER_TIME {
            self.put_time();
        }
        self.context.put(&mut self.bytes, event);
        self.events += 1;
        self.since_time += 1;
    }

    #[cold]
    fn pause(&mut self, ticks: u64) {
        if self.since_time > 0 {
            self.put_time();
        }
        self.latest = ticks;
        self.put_time();
    }

    fn put_time(&mut self) {
        put_time(&mut self.bytes, self.latest - self.last_time);
        self.last_time = self.latest;
        self.since_time = 0;
    }
}

struct Indexed {
    at: u64,
    first: u64,
    last: u64,
    events: u32,
}

/// Writes a trace into `out`. A trace that is not [finished](Writer::finish) can be read as far as it was flushed.
pub struct Writer<W: Write> {
    out: W,
    open: Vec<Section>,
    /// The place of each stream in `open`.
    places: FxHashMap<StreamId, usize>,
    /// The place that was asked for last: one stream does many things in a row.
    latest: usize,
    open_bytes: usize,
    /// How many objects each stream has begun in the epochs before this one.
    begun: FxHashMap<StreamId, u64>,
    index: Vec<Indexed>,
    written: Written,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, header: &Header) -> Result<Self> {
        let file_bytes = write_preamble(&mut out, header)?;
        Ok(Writer {
            out,
            open: Vec::new(),
            places: FxHashMap::default(),
            latest: 0,
            open_bytes: 0,
            begun: FxHashMap::default(),
            index: Vec::new(),
            written: Written { file_bytes, ..Written::default() },
        })
    }

    /// Adds what a stream did at `nanoseconds` since the trace began. Events of one stream come in their order; those of
    /// different streams may come a little out of it, but an object begins before anybody ends it.
    #[inline]
    pub fn event(&mut self, stream: StreamId, nanoseconds: u64, event: &Event) -> Result<()> {
        let ticks = nanoseconds / TICK;
        let place = match self.place(stream) {
            Some(place) => place,
            None => self.begin(stream, ticks),
        };
        self.latest = place;
        let section = &mut self.open[place];
        let before = section.bytes.len();
        section.put(ticks, event);
        self.open_bytes += section.bytes.len() - before;
        if self.open_bytes >= EPOCH_BYTES { self.flush() } else { Ok(()) }
    }

    #[inline]
    fn place(&self, stream: StreamId) -> Option<usize> {
        match self.open.get(self.latest) {
            Some(section) if section.context.stream == stream => Some(self.latest),
            _ => self.places.get(&stream).copied(),
        }
    }

    #[cold]
    fn begin(&mut self, stream: StreamId, ticks: u64) -> usize {
        let begun = self.begun.get(&stream).copied().unwrap_or(0);
        let place = self.open.len();
        self.open.push(Section::new(stream, begun, ticks));
        self.places.insert(stream, place);
        place
    }

    /// The ordinal of the object that this stream begins next.
    pub fn next_ordinal(&self, stream: StreamId) -> u64 {
        match self.place(stream) {
            Some(place) => self.open[place].context.next,
            None => self.begun.get(&stream).copied().unwrap_or(0),
        }
    }

    /// Ends the epoch: events added before can be read from the file.
    pub fn flush(&mut self) -> Result<()> {
        let mut sections = std::mem::take(&mut self.open);
        self.places.clear();
        self.open_bytes = 0;
        sections.sort_unstable_by_key(|section| section.context.stream);
        let Some(first) = sections.iter().map(|section| section.start).min() else { return Ok(()) };
        let (mut raw, mut last, mut events) = (Vec::with_capacity(EPOCH_BYTES + 4096), first, 0);
        for section in &mut sections {
            let stream = section.context.stream;
            section.put_time();
            last = last.max(section.latest);
            events += section.events;
            let fields = [u64::from(stream), section.first_ordinal, u64::from(section.events)];
            fields.into_iter().chain([section.start - first, section.bytes.len() as u64]).for_each(|field| {
                varint::put(&mut raw, field);
            });
            raw.extend_from_slice(&section.bytes);
            self.begun.insert(stream, section.context.next);
        }
        let at = self.written.file_bytes;
        self.index.push(Indexed { at, first, last, events });
        self.written.events += u64::from(events);
        self.written.epochs += 1;
        self.written.raw_bytes += raw.len() as u64;
        self.write_block(Kind::Epoch, &raw, events, sections.len() as u32, (first * TICK, last * TICK))
    }

    /// Ends the epoch and hands all to the system: whatever becomes of us, what was added before is in the file.
    pub fn save(&mut self) -> Result<()> {
        self.flush()?;
        Ok(self.out.flush()?)
    }

    fn write_block(
        &mut self,
        kind: Kind,
        raw: &[u8],
        events: u32,
        sections: u32,
        time: (u64, u64),
    ) -> Result<()> {
        let packed = zstd::bulk::compress(raw, ZSTD_LEVEL)?;
        let too_long = |_| Error::System(std::io::ErrorKind::FileTooLarge.into());
        let block = Block {
            kind,
            packed_bytes: u32::try_from(packed.len()).map_err(too_long)?,
            raw_bytes: u32::try_from(raw.len()).map_err(too_long)?,
            events,
            sections,
            first: time.0,
            last: time.1,
        };
        block.write(&mut self.out, &packed)?;
        self.written.file_bytes += (block::BLOCK_BYTES + packed.len()) as u64;
        Ok(())
    }

    /// Writes what is left and the index.
    pub fn finish(mut self) -> Result<(W, Written)> {
        self.flush()?;
        let (mut raw, mut before) = (Vec::new(), (0, 0));
        for epoch in &self.index {
            varint::put(&mut raw, epoch.at - before.0);
            varint::put_signed(&mut raw, epoch.first.wrapping_sub(before.1) as i64);
            varint::put(&mut raw, epoch.last - epoch.first);
            varint::put(&mut raw, u64::from(epoch.events));
            before = (epoch.at, epoch.first);
        }
        let (at, epochs) = (self.written.file_bytes, self.index.len() as u32);
        self.write_block(Kind::Index, &raw, 0, epochs, (0, 0))?;
        self.out.write_all(&at.to_le_bytes())?;
        self.out.write_all(INDEX_MAGIC)?;
        self.out.flush()?;
        self.written.file_bytes += block::TAIL_BYTES;
        Ok((self.out, self.written))
    }
}
