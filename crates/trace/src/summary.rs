//! What a trace holds, in figures.

use crate::event::{Event, Object, PROCESS, StreamId};
use crate::reader::Reader;
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
    /// Why the trace could not be read to its end.
    pub cut_off: Option<String>,
}

/// Reads a trace to its end. One that was cut off is summed up as far as it goes; what is damaged is an error. Holds a few bytes for
/// each block that lives.
pub fn summarize<R: Read>(reader: &mut Reader<R>) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut state = State::default();
    loop {
        match reader.next_epoch() {
            Ok(Some(epoch)) => {
                summary.epochs += 1;
                summary.nanoseconds = summary.nanoseconds.max(epoch.last);
                state.first = Some(state.first.unwrap_or(epoch.first).min(epoch.first));
                summary.reordered +=
                    in_order(&epoch, |stream, timed| state.add(&mut summary, stream, &timed.event));
            }
            Ok(None) => break,
            Err(error @ Error::CutOff { .. }) => {
                summary.cut_off = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    summary.nanoseconds -= state.first.unwrap_or(0);
    summary.threads = state.streams.len() as u64;
    summary.live_bytes_at_end = state.live_bytes;
    summary.live_blocks_at_end = state.live.len() as u64;
    Ok(summary)
}

#[derive(Default)]
struct State {
    first: Option<u64>,
    streams: HashSet<StreamId>,
    begun: HashMap<StreamId, u64>,
    live: HashMap<Object, u64>,
    live_bytes: u64,
}

impl State {
    fn add(&mut self, summary: &mut Summary, stream: StreamId, event: &Event) {
        summary.events += 1;
        if stream != PROCESS {
            self.streams.insert(stream);
        }
        if let Some(object) = event.ends() {
            self.live_bytes -= self.live.remove(&object).unwrap_or(0);
            summary.of_other_threads += u64::from(object.stream != stream);
        }
        match event {
            Event::Free { .. } => summary.frees += 1,
            Event::FreeUnknown => (summary.frees, summary.unknown) = (summary.frees + 1, summary.unknown + 1),
            Event::ReallocUnknown { .. } => summary.unknown += 1,
            Event::Gap { events } => summary.lost += events,
            Event::Memory { resident, .. } => {
                summary.peak_resident_bytes = summary.peak_resident_bytes.max(*resident);
            }
            _ => {}
        }
        let Some(bytes) = event.begins() else { return };
        if matches!(event, Event::Realloc { .. } | Event::ReallocUnknown { .. }) {
            summary.reallocations += 1;
        } else {
            summary.allocations += 1;
        }
        let next = self.begun.entry(stream).or_insert(0);
        self.live.insert(Object { stream, ordinal: *next }, bytes);
        *next += 1;
        self.live_bytes += bytes;
        summary.allocated_bytes += bytes;
        summary.peak_live_bytes = summary.peak_live_bytes.max(self.live_bytes);
        *summary.by_size.entry(bytes.max(1).next_power_of_two().ilog2()).or_insert(0) += 1;
    }
}
