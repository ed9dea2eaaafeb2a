//! Tenants of a trace: the blocks that one thread frees which began after all of them were there and does little else. So
//! does a thread that ends a part of a program, such as a brick of GlusterFS; nothing in a trace says whose a block is.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use vcm_trace::{Error, Event, Object, PROCESS, Reader, StreamId, in_order};

/// A thread that frees less of older blocks ends nothing that would be worth a heap.
const LEAST_BYTES: u64 = 64 << 10;

/// One of them, as the trace has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// The thread that frees it.
    pub reaper: StreamId,
    pub blocks: u64,
    pub bytes: u64,
    /// Of these, bytes by the second of the trace in which they were allocated.
    pub by_second: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Tenants {
    pub found: Vec<Tenant>,
    /// All live bytes when the first of them began to end.
    pub live_bytes: u64,
    of: HashMap<Object, u32>,
}

impl Tenants {
    /// The tenant that an object belongs to.
    #[inline]
    pub fn of(&self, object: Object) -> Option<u32> {
        if self.of.is_empty() { None } else { self.of.get(&object).copied() }
    }

    pub fn get(&self, tenant: u32) -> Option<&Tenant> {
        self.found.get(tenant as usize)
    }
}

struct Block {
    bytes: u64,
    born: u64,
    time: u64,
    /// Objects that became this one by realloc.
    before: Vec<Object>,
}

/// A thread, as a candidate.
#[derive(Default)]
struct Thread {
    /// The number of its first event.
    began: u64,
    events: u64,
    bytes: u64,
    freed: Vec<(Object, Block)>,
    /// The bytes that were live when it freed the first of them.
    live_bytes: u64,
}

#[derive(Default)]
struct State {
    first_time: Option<u64>,
    events: u64,
    begun: HashMap<StreamId, u64>,
    live: HashMap<Object, Block>,
    live_bytes: u64,
    threads: HashMap<StreamId, Thread>,
}

/// Reads a trace to its end, or as far as it goes; `goes_on` is asked after every epoch. None: it said no.
pub fn find<R: Read>(
    mut reader: Reader<R>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> vcm_trace::Result<Option<Tenants>> {
    let mut state = State::default();
    loop {
        match reader.next_epoch() {
            Ok(Some(epoch)) => {
                in_order(&epoch, |stream, timed| state.add(stream, timed.nanoseconds, &timed.event));
            }
            Ok(None) | Err(Error::CutOff { .. }) => return Ok(Some(state.tenants())),
            Err(error) => return Err(error),
        }
        if !goes_on(state.events) {
            return Ok(None);
        }
    }
}

impl State {
    fn add(&mut self, stream: StreamId, time: u64, event: &Event) {
        if stream == PROCESS || matches!(event, Event::Name { .. }) {
            return;
        }
        self.events += 1;
        let now = self.events;
        let time = time - (*self.first_time.get_or_insert(time)).min(time);
        let thread = self.threads.entry(stream).or_insert_with(|| Thread { began: now, ..Thread::default() });
        thread.events += 1;
        let mut before = Vec::new();
        if let Some(object) = event.ends()
            && let Some(block) = self.live.remove(&object)
        {
            let live_bytes = self.live_bytes;
            self.live_bytes -= block.bytes;
            if matches!(event, Event::Realloc { .. }) {
                before = block.before;
                before.push(object);
            } else if block.born < thread.began {
                if thread.freed.is_empty() {
                    thread.live_bytes = live_bytes;
                }
                thread.bytes += block.bytes;
                thread.freed.push((object, block));
            }
        }
        let Some(bytes) = event.begins() else { return };
        let next = self.begun.entry(stream).or_insert(0);
        let object = Object { stream, ordinal: *next };
        *next += 1;
        self.live.insert(object, Block { bytes, born: now, time, before });
        self.live_bytes += bytes;
    }

    fn tenants(self) -> Tenants {
        let is_reaper =
            |thread: &Thread| thread.bytes >= LEAST_BYTES && thread.freed.len() as u64 * 2 > thread.events;
        let mut reapers: Vec<(StreamId, Thread)> =
            self.threads.into_iter().filter(|(_, thread)| is_reaper(thread)).collect();
        reapers.sort_unstable_by_key(|(_, thread)| thread.began);
        let live_bytes = reapers.first().map_or(0, |(_, thread)| thread.live_bytes);
        let mut tenants = Tenants { live_bytes, ..Tenants::default() };
        for (number, (reaper, thread)) in reapers.into_iter().enumerate() {
            let (blocks, bytes, mut by_second) = (thread.freed.len() as u64, thread.bytes, BTreeMap::new());
            for (object, block) in thread.freed {
                *by_second.entry(block.time / 1_000_000_000).or_insert(0) += block.bytes;
                let all = block.before.into_iter().chain([object]);
                tenants.of.extend(all.map(|object| (object, number as u32)));
            }
            tenants.found.push(Tenant { reaper, blocks, bytes, by_second });
        }
        tenants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vcm_trace::{Header, Writer};

    fn found(fill: impl FnOnce(&mut Writer<Vec<u8>>)) -> Tenants {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        fill(&mut writer);
        let (bytes, _) = writer.finish().unwrap();
        find(Reader::new(&bytes[..]).unwrap(), |_| true).unwrap().unwrap()
    }

    fn object(stream: StreamId, ordinal: u64) -> Object {
        Object { stream, ordinal }
    }

    #[test]
    fn what_a_later_thread_frees_is_a_tenant_and_what_its_owner_frees_is_none() {
        let tenants = found(|writer| {
            for ordinal in 0..100 {
                writer.event(1, ordinal, &Event::Malloc { bytes: 4096 }).unwrap();
            }
            writer.event(1, 100, &Event::Realloc { from: object(1, 0), bytes: 8192 }).unwrap();
            // Two threads end a half each; the second half has the block that was made larger.
            for (stream, ordinals) in [(2, 1..50), (3, 50..101)] {
                for ordinal in ordinals {
                    let free = Event::Free { object: object(1, ordinal) };
                    writer.event(stream, 20_000_000 * u64::from(stream), &free).unwrap();
                }
            }
            writer.event(1, 90_000_000, &Event::Malloc { bytes: 1 << 20 }).unwrap();
            writer.event(1, 90_000_000, &Event::Free { object: object(1, 101) }).unwrap();
        });
        let sums: Vec<_> = tenants.found.iter().map(|one| (one.reaper, one.blocks, one.bytes)).collect();
        assert_eq!(sums, [(2, 49, 49 * 4096), (3, 51, 52 * 4096)]);
        assert_eq!(tenants.live_bytes, 101 * 4096);
        let of = |ordinal| tenants.of(object(1, ordinal));
        assert_eq!((of(1), of(50), of(100), of(0), of(101)), (Some(0), Some(1), Some(1), Some(1), None));
    }

    #[test]
    fn a_thread_that_works_as_well_and_one_that_frees_its_own_end_no_tenant() {
        let tenants = found(|writer| {
            for ordinal in 0..100 {
                writer.event(1, ordinal, &Event::Malloc { bytes: 4096 }).unwrap();
            }
            for ordinal in 0..100 {
                let now = 20_000_000 + ordinal;
                writer.event(2, now, &Event::Malloc { bytes: 4096 }).unwrap();
                writer.event(2, now, &Event::Free { object: object(1, ordinal) }).unwrap();
                writer.event(2, now, &Event::Free { object: object(2, ordinal) }).unwrap();
            }
        });
        assert!(tenants.found.is_empty(), "{:?}", tenants.found);
    }
}
