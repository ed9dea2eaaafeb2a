//! The contents of a trace, in figures.

use crate::event::{Event, Object, PROCESS, StreamId};
use crate::reader::{Reader, Timed};
use crate::thinned::Thinned;
use crate::{Error, Result, in_order};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

/// The figures of a trace. Bytes are those that were asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub events: u64,
    pub epochs: u64,
    pub threads: u64,
    /// From the first event to the last.
    pub nanoseconds: u64,
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
    /// Frees and reallocations of another thread's block.
    pub of_other_threads: u64,
    /// Blocks that ended with their program, at an exec: nobody freed them.
    pub ended_with_program: u64,
    /// Frees and reallocations of blocks that the trace does not know.
    pub unknown: u64,
    /// Events that were lost while it was recorded.
    pub lost: u64,
    /// Events whose order in the file contradicts itself.
    pub reordered: u64,
    pub allocated_bytes: u64,
    pub peak_live_bytes: u64,
    pub live_bytes_at_end: u64,
    pub live_blocks_at_end: u64,
    /// Of the process, where it was sampled.
    pub peak_resident_bytes: u64,
    /// Allocations by the power of two that their bytes reach.
    pub by_size: BTreeMap<u32, u64>,
    /// Blocks that ended, by the power of two that the nanoseconds of their lives reach. Times within 32 events are estimates.
    pub by_lifetime: BTreeMap<u32, u64>,
    pub by_thread: BTreeMap<StreamId, OfThread>,
    /// Some thousand moments at most.
    pub course: Vec<Moment>,
    /// Why the trace could not be read to its end.
    pub cut_off: Option<String>,
}

/// The figures of a thread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OfThread {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Frees and reallocations, and those of them that ended another thread's block.
    pub ends: u64,
    pub of_other_threads: u64,
}

/// Bytes at a time since the first event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    pub nanoseconds: u64,
    pub live_bytes: u64,
    /// Of the process, where it was sampled just then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// About so many moments of live bytes, and as many of the memory of the process.
const MOMENTS: usize = 1000;

/// Reads a trace to its end. A trace that was cut off is summed up as far as it goes; a damaged one is an error. Holds
/// a few bytes for each block that lives.
pub fn summarize<R: Read>(reader: &mut Reader<R>) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut state = State::new();
    loop {
        match reader.next_epoch() {
            Ok(Some(epoch)) => {
                summary.epochs += 1;
                summary.nanoseconds = summary.nanoseconds.max(epoch.last);
                state.first = Some(state.first.unwrap_or(epoch.first).min(epoch.first));
                summary.reordered += in_order(&epoch, |stream, timed| state.add(&mut summary, stream, timed));
            }
            Ok(None) => break,
            Err(error @ Error::CutOff { .. }) => {
                summary.cut_off = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    summary.nanoseconds = summary.nanoseconds.saturating_sub(state.first.unwrap_or(0));
    summary.threads = state.streams.len() as u64;
    summary.live_bytes_at_end = state.live_bytes;
    summary.live_blocks_at_end = state.live.len() as u64;
    summary.course = state.course();
    Ok(summary)
}

struct Block {
    bytes: u64,
    born: u64,
}

struct State {
    first: Option<u64>,
    last: u64,
    streams: HashSet<StreamId>,
    begun: HashMap<StreamId, u64>,
    live: HashMap<Object, Block>,
    live_bytes: u64,
    course: Thinned<Moment>,
    resident: Thinned<Moment>,
}

impl State {
    fn new() -> State {
        State {
            first: None,
            last: 0,
            streams: HashSet::new(),
            begun: HashMap::new(),
            live: HashMap::new(),
            live_bytes: 0,
            course: Thinned::new(MOMENTS),
            resident: Thinned::new(MOMENTS),
        }
    }

    fn moment(&self, resident_bytes: Option<u64>) -> Moment {
        let nanoseconds = self.last - self.first.unwrap_or(0).min(self.last);
        Moment { nanoseconds, live_bytes: self.live_bytes, resident_bytes }
    }

    fn course(self) -> Vec<Moment> {
        if self.streams.is_empty() {
            return Vec::new();
        }
        let last = self.moment(None);
        let mut course = self.course.ending_with(last);
        course.extend(self.resident.into_kept());
        course.sort_by_key(|moment| moment.nanoseconds);
        course
    }

    fn add(&mut self, summary: &mut Summary, stream: StreamId, timed: &Timed) {
        self.last = self.last.max(timed.nanoseconds);
        self.count(summary, stream, timed);
        match timed.event {
            Event::Memory { resident, .. } => self.resident.push(self.moment(Some(resident))),
            _ => self.course.push(self.moment(None)),
        }
    }

    fn count(&mut self, summary: &mut Summary, stream: StreamId, timed: &Timed) {
        let event = &timed.event;
        summary.events += 1;
        if stream != PROCESS {
            self.streams.insert(stream);
        }
        if let Some(object) = event.ends() {
            // The process ends blocks where an exec takes all of them, and its threads.
            let is_freed = stream != PROCESS;
            if let Some(block) = self.live.remove(&object) {
                self.live_bytes = self.live_bytes.saturating_sub(block.bytes);
                let lived = timed.nanoseconds.saturating_sub(block.born);
                *summary.by_lifetime.entry(power(lived)).or_insert(0) += 1;
            }
            if is_freed {
                let is_other = u64::from(object.stream != stream);
                summary.of_other_threads += is_other;
                let of = summary.by_thread.entry(stream).or_default();
                (of.ends, of.of_other_threads) = (of.ends + 1, of.of_other_threads + is_other);
            }
        }
        match event {
            Event::Free { .. } if stream == PROCESS => summary.ended_with_program += 1,
            Event::Free { .. } => summary.frees += 1,
            Event::FreeUnknown => (summary.frees, summary.unknown) = (summary.frees + 1, summary.unknown + 1),
            Event::ReallocUnknown { .. } => summary.unknown += 1,
            Event::Gap { events } => summary.lost = summary.lost.saturating_add(*events),
            Event::Memory { resident, .. } => {
                summary.peak_resident_bytes = summary.peak_resident_bytes.max(*resident);
            }
            Event::Name { name } => summary.by_thread.entry(stream).or_default().name.clone_from(name),
            _ => {}
        }
        let Some(bytes) = event.begins() else { return };
        if matches!(event, Event::Realloc { .. } | Event::ReallocUnknown { .. }) {
            summary.reallocations += 1;
        } else {
            summary.allocations += 1;
        }
        let next = self.begun.entry(stream).or_insert(0);
        self.live.insert(Object { stream, ordinal: *next }, Block { bytes, born: timed.nanoseconds });
        *next += 1;
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        summary.allocated_bytes = summary.allocated_bytes.saturating_add(bytes);
        summary.peak_live_bytes = summary.peak_live_bytes.max(self.live_bytes);
        *summary.by_size.entry(power(bytes)).or_insert(0) += 1;
        let of = summary.by_thread.entry(stream).or_default();
        (of.allocations, of.allocated_bytes) = (of.allocations + 1, of.allocated_bytes.saturating_add(bytes));
    }
}

/// The exponent of the least power of two that is not below a number.
fn power(number: u64) -> u32 {
    number.max(1).checked_next_power_of_two().map_or(u64::BITS, u64::ilog2)
}
