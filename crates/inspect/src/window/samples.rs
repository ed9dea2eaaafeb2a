//! The samples of a process's live profile, read out of its tables.

use super::layout::{Layout, Within};
use super::memory::{Memory, number};
use super::seen::{Seen, why_refused};
use std::io;

/// Looks at tables that are changed all the time before the last of them has to do.
const ATTEMPTS: usize = 8;
/// The thread that holds a lock sets this bit of its word.
const HELD: u64 = 1;
/// More entries than any library has.
const MOST_ENTRIES: u64 = 1 << 20;
const MOST_ENTRY_BYTES: u64 = 1 << 12;
/// Each is read into some hundred bytes here, so an entry of a few would be a lie that takes our memory.
const LEAST_ENTRY_BYTES: u64 = 32;

/// The objects and bytes of the whole heap that samples stand for.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Sum {
    pub objects: f64,
    pub bytes: u64,
}

/// A sampled block in use.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub address: u64,
    /// As requested.
    pub bytes: u64,
    /// The objects and bytes that it stands for.
    pub sum: Sum,
    /// Its place in `Samples::stacks`.
    pub stack: usize,
    /// The number of this sample since the start, from 1.
    pub birth: u64,
    /// The number of the tenant's heap that it is of; 0: the process's own.
    pub heap: u64,
    /// The system's number of the thread that took it; 0: not known.
    pub thread: u64,
}

/// All samples that were taken with one stack.
#[derive(Clone, Default, Debug)]
pub struct OfStack {
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
    pub allocated: Sum,
    pub freed: Sum,
    /// The sum in use when most was in use; none where the library does not keep it.
    pub peak: Option<Sum>,
}

#[derive(Clone, Default, Debug)]
pub struct Samples {
    pub is_on: bool,
    /// Mean bytes between samples.
    pub interval: u64,
    pub live: Vec<Sample>,
    pub stacks: Vec<OfStack>,
    /// The library keeps what was in use when most was.
    pub keeps_peak: bool,
    /// Samples since the start.
    pub births: u64,
    /// Samples for which there was no room.
    pub dropped: u64,
    /// How often the interval was doubled, for samples to find room.
    pub raised: u64,
    /// The samples that moved while it was read; none: it is of one moment.
    pub torn: Option<String>,
}

impl Seen {
    /// Reads the profile that is taken, or the last one. The error is the rest of a line that begins with the number of
    /// the process.
    pub fn samples(&self) -> Result<Samples, String> {
        if self.layout.constant("record.entry_bytes").is_none() {
            let build = &self.layout.build;
            return Err(format!(
                "runs vcmalloc {build}, whose profile cannot be read from outside; restart it on this one"
            ));
        }
        Samples::read(&self.memory, &self.layout).map_err(|error| why_refused(&self.process, &error))
    }

    /// Whether a profile is taken just now; none where nothing tells.
    pub fn is_profiling(&self) -> Option<bool> {
        let place = self.layout.place("profile.on", Within::Heap)?;
        let byte = self.memory.bytes(self.layout.heap.wrapping_add(place.offset), 1).ok()?;
        byte.first().map(|byte| *byte != 0)
    }
}

/// The numbers that change with each sample.
#[derive(Clone, Copy, PartialEq)]
struct State {
    lock: u64,
    records: u64,
    stacks: u64,
    births: u64,
    live: u64,
}

impl State {
    fn stands(&self, before: &State) -> bool {
        self == before && self.lock & HELD == 0
    }
}

impl Samples {
    pub(super) fn read(memory: &Memory, layout: &Layout) -> io::Result<Samples> {
        let tables = Tables { memory, layout };
        let mut last = Samples::default();
        for _ in 0..ATTEMPTS {
            let heap = memory.bytes(layout.heap, layout.heap_bytes as u64)?;
            let before = tables.state(&heap);
            last = Samples {
                is_on: tables.of_heap(&heap, "profile.on") != 0,
                interval: tables.of_heap(&heap, "profile.interval"),
                dropped: tables.of_heap(&heap, "profile.dropped"),
                raised: tables.of_heap(&heap, "profile.raised"),
                births: before.births,
                keeps_peak: layout.constant("stack.peak_bytes").is_some(),
                ..Samples::default()
            };
            if before.records != 0 && tables.of_heap(&heap, "metadata_at.records") != 0 {
                // The stack that a sample names is there before it.
                last.live = tables.live(&heap, &before)?;
                last.stacks = tables.stacks(&heap, &before)?;
            }
            let after = tables.state(&memory.bytes(layout.heap, layout.heap_bytes as u64)?);
            if after.stands(&before) {
                break;
            }
            let came = after.births.wrapping_sub(before.births);
            let left = before.live.wrapping_add(came).wrapping_sub(after.live);
            last.torn = Some(format!("{came} samples came and {left} went"));
        }
        let known = last.stacks.len();
        last.live.retain(|sample| sample.stack < known);
        Ok(last)
    }
}

struct Tables<'a> {
    memory: &'a Memory,
    layout: &'a Layout,
}

impl Tables<'_> {
    fn of_heap(&self, heap: &[u8], name: &str) -> u64 {
        let place = self.layout.place(name, Within::Heap);
        place.map_or(0, |place| number(heap, place.offset as usize, place.width))
    }

    /// The place of a number in an entry.
    fn field(&self, name: &str) -> Option<usize> {
        self.layout.constant(name).map(|offset| offset as usize)
    }

    fn state(&self, heap: &[u8]) -> State {
        let of = |name| self.of_heap(heap, name);
        State {
            lock: of("profile.lock"),
            records: of("profile.records").min(MOST_ENTRIES),
            stacks: of("profile.stacks").min(MOST_ENTRIES),
            births: of("profile.births"),
            live: of("profile.live"),
        }
    }

    /// The entries of a table, from its first.
    fn entries(&self, heap: &[u8], table: &str, entry: &str, count: u64) -> io::Result<(Vec<u8>, usize)> {
        let bytes = self.layout.constant(entry).unwrap_or(0).clamp(LEAST_ENTRY_BYTES, MOST_ENTRY_BYTES);
        let at = self.of_heap(heap, &format!("metadata_at.{table}"));
        // While it grows, what it will have is not mapped yet.
        let most = self.of_heap(heap, &format!("metadata_bytes.{table}"));
        let all = self.memory.bytes(at, (count * bytes).min(most))?;
        Ok((all, bytes as usize))
    }

    fn live(&self, heap: &[u8], state: &State) -> io::Result<Vec<Sample>> {
        let (all, bytes) = self.entries(heap, "records", "record.entry_bytes", state.records)?;
        let fields = ["address", "bytes", "weight", "parts", "birth", "heap", "thread", "stack"]
            .map(|name| self.field(&format!("record.{name}")).unwrap_or(usize::MAX));
        let whole = self.layout.constant("stack.parts_of_one").unwrap_or(1).max(1) as f64;
        let sample = |entry: &[u8]| {
            let [address, bytes, weight, parts, birth, heap, thread, _] =
                fields.map(|at| number(entry, at, 8));
            let stack = number(entry, fields[7], 4) as usize;
            let sum = Sum { objects: parts as f64 / whole, bytes: weight };
            (birth != 0 && address != 0).then_some(Sample { address, bytes, sum, stack, birth, heap, thread })
        };
        Ok(all.chunks_exact(bytes).skip(1).filter_map(sample).collect())
    }

    fn stacks(&self, heap: &[u8], state: &State) -> io::Result<Vec<OfStack>> {
        let (all, bytes) = self.entries(heap, "stacks", "stack.entry_bytes", state.stacks)?;
        let whole = self.layout.constant("stack.parts_of_one").unwrap_or(1).max(1) as f64;
        let [frames, depth] =
            ["frames", "depth"].map(|name| self.field(&format!("stack.{name}")).unwrap_or(usize::MAX));
        let place = |kind: &str| {
            let parts = self.field(&format!("stack.{kind}_parts"))?;
            Some((parts, self.field(&format!("stack.{kind}_bytes"))?))
        };
        let [allocated, freed, peak] = ["allocated", "freed", "peak"].map(place);
        let sum = |entry: &[u8], place: Option<(usize, usize)>| {
            let (parts, bytes) = place?;
            Some(Sum { objects: number(entry, parts, 8) as f64 / whole, bytes: number(entry, bytes, 8) })
        };
        let (peaks, peak_number) = (self.of_heap(heap, "profile.peaks"), self.field("stack.peak_number"));
        let stack = |(index, entry): (usize, &[u8])| {
            // Number 0 is nobody's.
            let depth = if index == 0 { 0 } else { (number(entry, depth, 8) as usize).min(bytes / 8) };
            let (allocated, freed) = (sum(entry, allocated), sum(entry, freed));
            // A stack that nothing happened to since the peak has what it had then.
            let has_kept = peak_number.is_some_and(|place| number(entry, place, 8) == peaks);
            let in_use = || {
                let (all, gone) = (allocated.unwrap_or_default(), freed.unwrap_or_default());
                let bytes = all.bytes.saturating_sub(gone.bytes);
                Sum { objects: (all.objects - gone.objects).max(0.0), bytes }
            };
            let peak = sum(entry, peak).map(|kept| if has_kept { kept } else { in_use() });
            OfStack {
                frames: (0..depth).map(|at| number(entry, frames.saturating_add(at * 8), 8)).collect(),
                allocated: allocated.unwrap_or_default(),
                freed: freed.unwrap_or_default(),
                peak,
            }
        };
        Ok(all.chunks_exact(bytes).enumerate().map(stack).collect())
    }
}
