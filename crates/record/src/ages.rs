//! Addresses turned into objects: which allocation of which thread an event is about.

use crate::drain::Raw;
use crate::layout::{Kind, LOW};
use rustc_hash::FxHashMap;
use std::io::Write;
use vcm_trace::{Event, Object, PROCESS, Result, StreamId, Writer};

/// The events that were written, and what was not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
    /// Frees and reallocs of blocks from before the recording, or whose allocation was lost.
    pub unknown: u64,
    /// Blocks whose address was given anew before their end was seen: they are taken for freed there.
    pub unseen_ends: u64,
    pub threads: u64,
    pub lost: u64,
}

struct Thread {
    stream: StreamId,
    named: bool,
    /// The block that is in a realloc.
    moving: Option<(u64, Option<Object>)>,
    /// When its end was announced; frees of its last destructors may follow.
    ended: Option<u64>,
}

/// Threads' ends are written so long after they were announced, in nanoseconds.
const AFTERMATH: u64 = 50_000_000;

pub struct Ages<W: Write> {
    writer: Writer<W>,
    live: FxHashMap<u64, Object>,
    threads: FxHashMap<u32, Thread>,
    ending: Vec<u32>,
    streams: StreamId,
    seen: Seen,
}

impl<W: Write> Ages<W> {
    pub fn new(writer: Writer<W>) -> Self {
        Ages {
            writer,
            live: FxHashMap::default(),
            threads: FxHashMap::default(),
            ending: Vec::new(),
            streams: PROCESS,
            seen: Seen::default(),
        }
    }

    pub fn seen(&self) -> Seen {
        self.seen
    }

    pub fn take(&mut self, at: u64, raw: &Raw) -> Result<()> {
        match raw.kind {
            Kind::Image => return self.new_image(at),
            Kind::Start => return self.start(at, raw.thread),
            Kind::End => return self.end(at, raw),
            _ => {}
        }
        let bytes = raw.size & LOW;
        let thread = self.thread(raw.thread);
        let stream = thread.stream;
        match raw.kind {
            Kind::Malloc => self.begin(at, stream, raw.address, &Event::Malloc { bytes }),
            Kind::Calloc => self.begin(at, stream, raw.address, &Event::Calloc { bytes }),
            Kind::Aligned => {
                let log2_alignment = (raw.size >> 56) as u8;
                self.begin(at, stream, raw.address, &Event::Aligned { bytes, log2_alignment })
            }
            Kind::Free => {
                let object = self.live.remove(&raw.address);
                self.free(at, stream, object)
            }
            Kind::ReallocFrom => {
                let left = thread.moving.replace((raw.address, None));
                let object = self.live.remove(&raw.address);
                self.thread(raw.thread).moving = Some((raw.address, object));
                // The end of that realloc was lost.
                left.map_or(Ok(()), |(_, object)| self.free(at, stream, object))
            }
            _ => {
                let moving = thread.moving.take();
                self.realloc(at, stream, raw, moving)
            }
        }
    }

    fn thread(&mut self, id: u32) -> &mut Thread {
        let (streams, seen) = (&mut self.streams, &mut self.seen);
        self.threads.entry(id).or_insert_with(|| {
            *streams += 1;
            seen.threads += 1;
            Thread { stream: *streams, named: false, moving: None, ended: None }
        })
    }

    fn begin(&mut self, at: u64, stream: StreamId, address: u64, event: &Event) -> Result<()> {
        let object = Object { stream, ordinal: self.writer.next_ordinal(stream) };
        if let Some(before) = self.live.insert(address, object) {
            self.seen.unseen_ends += 1;
            self.writer.event(stream, at, &Event::Free { object: before })?;
        }
        match event {
            Event::Realloc { .. } | Event::ReallocUnknown { .. } => self.seen.reallocations += 1,
            _ => self.seen.allocations += 1,
        }
        self.writer.event(stream, at, event)
    }

    fn free(&mut self, at: u64, stream: StreamId, object: Option<Object>) -> Result<()> {
        self.seen.frees += 1;
        self.seen.unknown += u64::from(object.is_none());
        let event = object.map_or(Event::FreeUnknown, |object| Event::Free { object });
        self.writer.event(stream, at, &event)
    }

    /// The second half of a realloc.
    fn realloc(
        &mut self,
        at: u64,
        stream: StreamId,
        raw: &Raw,
        moving: Option<(u64, Option<Object>)>,
    ) -> Result<()> {
        let bytes = raw.size & LOW;
        match (raw.kind, moving) {
            (Kind::ReallocTo, Some((_, Some(from)))) => {
                self.begin(at, stream, raw.address, &Event::Realloc { from, bytes })
            }
            (Kind::ReallocTo, _) => {
                self.seen.unknown += 1;
                self.begin(at, stream, raw.address, &Event::ReallocUnknown { bytes })
            }
            (Kind::ReallocAway, Some((_, object))) => self.free(at, stream, object),
            (_, Some((address, Some(object)))) => {
                self.live.insert(address, object);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, at: u64, id: u32) -> Result<()> {
        // The kernel gives a number anew once its thread is gone.
        self.forget(at, id)?;
        self.thread(id);
        Ok(())
    }

    fn end(&mut self, at: u64, raw: &Raw) -> Result<()> {
        let mut name: Vec<u8> =
            raw.address.to_le_bytes().into_iter().take(7).chain(raw.size.to_le_bytes()).collect();
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        let thread = self.thread(raw.thread);
        thread.ended = Some(at);
        self.ending.push(raw.thread);
        self.name(at, raw.thread, &String::from_utf8_lossy(&name))
    }

    fn forget(&mut self, at: u64, id: u32) -> Result<()> {
        match self.threads.remove(&id) {
            Some(Thread { stream, ended: Some(_), .. }) => self.writer.event(stream, at, &Event::ThreadEnd),
            _ => Ok(()),
        }
    }

    /// Exec: the blocks of the program before, and its threads, are no more.
    fn new_image(&mut self, at: u64) -> Result<()> {
        let mut left: Vec<Object> = self.live.drain().map(|(_, object)| object).collect();
        left.sort_unstable();
        for object in left {
            self.writer.event(PROCESS, at, &Event::Free { object })?;
        }
        for id in self.threads.keys().copied().collect::<Vec<_>>() {
            self.forget(at, id)?;
        }
        Ok(())
    }

    /// Writes a thread's name, once.
    pub fn name(&mut self, at: u64, id: u32, name: &str) -> Result<()> {
        let Some(thread) = self.threads.get_mut(&id).filter(|thread| !thread.named && !name.is_empty())
        else {
            return Ok(());
        };
        thread.named = true;
        self.writer.event(thread.stream, at, &Event::Name { name: name.to_owned() })
    }

    /// Events taken before this call can be read from the file, even if this process is killed.
    pub fn save(&mut self) -> Result<()> {
        self.writer.save()
    }

    /// Threads without a name yet.
    pub fn nameless(&self) -> Vec<u32> {
        self.threads.iter().filter(|(_, thread)| !thread.named).map(|(id, _)| *id).collect()
    }

    /// Ends threads that are no more, where nothing else tells of that.
    pub fn gone(&mut self, at: u64, is_there: impl Fn(u32) -> bool) -> Result<()> {
        let gone: Vec<u32> = self
            .threads
            .iter()
            .filter(|(id, thread)| thread.ended.is_none() && !is_there(**id))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            if let Some(thread) = self.threads.get_mut(&id) {
                // Its last events may still be read.
                thread.ended.get_or_insert(at);
                self.ending.push(id);
            }
        }
        Ok(())
    }

    pub fn memory(&mut self, at: u64, resident: u64, minor_faults: u64, major_faults: u64) -> Result<()> {
        self.writer.event(PROCESS, at, &Event::Memory { resident, minor_faults, major_faults })
    }

    pub fn lost(&mut self, at: u64, events: u64) -> Result<()> {
        self.seen.lost += events;
        self.writer.event(PROCESS, at, &Event::Gap { events })
    }

    /// Writes the ends of threads that were announced a while ago.
    pub fn settle(&mut self, at: u64) -> Result<()> {
        let settled = |threads: &FxHashMap<u32, Thread>, id: &u32| {
            let ended = threads.get(id).and_then(|thread| thread.ended);
            ended.is_none_or(|ended| ended + AFTERMATH <= at)
        };
        let due: Vec<u32> = self.ending.extract_if(.., |id| settled(&self.threads, id)).collect();
        for id in due {
            if self.threads.get(&id).is_some_and(|thread| thread.ended.is_some()) {
                self.forget(at, id)?;
            }
        }
        Ok(())
    }

    /// Makes what was written so far readable from the file.
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush()
    }

    pub fn finish(mut self, at: u64) -> Result<(W, vcm_trace::Written)> {
        for id in std::mem::take(&mut self.ending) {
            self.forget(at, id)?;
        }
        self.writer.finish()
    }
}
