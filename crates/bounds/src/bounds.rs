//! Reads a trace twice, and follows all rules side by side.

use crate::PAGE;
use crate::best_fit::{BestFit, Chunk};
use crate::lifetimes::Lifetimes;
use crate::pools::{Place, Pools};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::io::Read;
use vcm_trace::{Error, Event, Object, PROCESS, Reader, Result, StreamId, Thinned, in_order};

/// The rule by which a block gets its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Spans by class, as ours.
    Classes,
    /// Chunks side by side, as glibc's.
    BestFit,
    /// Spans by class and by how long a block will live, to a power of two.
    KnownLifetimes,
    /// Spans by class for each thread.
    PoolPerThread,
    /// Spans for each size that is asked for, rounded up to 16: what a pool for each call site comes to where a site asks
    /// for one size. Traces hold no call sites.
    PoolPerSize,
}

pub const RULES: [Rule; 5] =
    [Rule::Classes, Rule::BestFit, Rule::KnownLifetimes, Rule::PoolPerThread, Rule::PoolPerSize];

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Classes => "classes, lowest place first",
            Rule::BestFit => "glibc's rules, one arena",
            Rule::KnownLifetimes => "classes and known lifetimes",
            Rule::PoolPerThread => "classes, a pool a thread",
            Rule::PoolPerSize => "a pool a size asked for",
        }
    }
}

/// Bytes at a moment: what lives, and the pages with a live block by each rule of `RULES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    pub seconds: f64,
    pub live: u64,
    pub pages: [u64; RULES.len()],
    /// The bytes that the process held in memory when it was recorded; 0 if that is not known.
    pub resident: u64,
}

/// One line of bytes over the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub mean: f64,
    pub peak: u64,
    pub end: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Bounds {
    pub events: u64,
    pub live: Figures,
    pub pages: [Figures; RULES.len()],
    pub course: Vec<Moment>,
    /// Why the trace could not be read to its end.
    pub cut_off: Option<String>,
}

/// More than any block has.
const MOST_BYTES: u64 = 1 << 40;

/// About so many moments are kept.
const MOMENTS: usize = 1000;

/// Follows all rules through a trace; `open` opens it anew.
pub fn bounds<R: Read>(
    mut open: impl FnMut() -> Result<Reader<R>>,
    mut progress: impl FnMut(u64),
) -> Result<Bounds> {
    let lifetimes = Lifetimes::read(&mut open()?)?;
    let mut reader = open()?;
    let mut course = Course::new(lifetimes);
    loop {
        let epoch = match reader.next_epoch() {
            Ok(Some(epoch)) => epoch,
            Ok(None) => break,
            Err(error @ Error::CutOff { .. }) => {
                course.bounds.cut_off = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        };
        in_order(&epoch, |stream, timed| course.add(stream, timed.nanoseconds, &timed.event));
        progress(course.bounds.events);
    }
    Ok(course.end())
}

struct Block {
    bytes: u64,
    pooled: [Place; 4],
    chunk: Chunk,
}

struct Course {
    lifetimes: Lifetimes,
    begun: FxHashMap<StreamId, u64>,
    blocks: FxHashMap<Object, Block>,
    pools: [Pools; 4],
    best_fit: BestFit,
    now: Moment,
    sums: (f64, [f64; RULES.len()]),
    course: Thinned<Moment>,
    bounds: Bounds,
}

impl Course {
    fn new(lifetimes: Lifetimes) -> Self {
        Course {
            lifetimes,
            begun: FxHashMap::default(),
            blocks: FxHashMap::default(),
            pools: Default::default(),
            best_fit: BestFit::new(),
            now: Moment::default(),
            sums: (0.0, [0.0; RULES.len()]),
            course: Thinned::new(MOMENTS),
            bounds: Bounds::default(),
        }
    }

    fn add(&mut self, stream: StreamId, nanoseconds: u64, event: &Event) {
        self.now.seconds = nanoseconds as f64 / 1e9;
        if let (PROCESS, Event::Memory { resident, .. }) = (stream, event) {
            self.now.resident = *resident;
        }
        // A realloc may grow a block where it is, so the old one makes room first.
        if let Some(block) = event.ends().and_then(|object| self.blocks.remove(&object)) {
            self.take_out(&block);
        }
        if let Some(bytes) = event.begins() {
            let ordinal = self.begun.entry(stream).or_default();
            let object = Object { stream, ordinal: *ordinal };
            *ordinal += 1;
            let alignment = match event {
                Event::Aligned { log2_alignment, .. } => 1 << (*log2_alignment).min(40),
                _ => 1,
            };
            self.put(object, bytes, alignment);
        }
        self.note();
    }

    fn put(&mut self, object: Object, bytes: u64, alignment: u64) {
        // Damaged sizes must not take this machine's memory.
        let bytes = bytes.min(MOST_BYTES);
        let kinds =
            [0, u64::from(self.lifetimes.of(object)) + 1, u64::from(object.stream), bytes.div_ceil(16) + 1];
        let mut kinds = kinds.into_iter();
        let pooled =
            self.pools.each_mut().map(|pools| pools.put(bytes, alignment, kinds.next().unwrap_or(0)));
        let chunk = self.best_fit.put(bytes, alignment);
        self.now.live = self.now.live.saturating_add(bytes);
        self.blocks.insert(object, Block { bytes, pooled, chunk });
    }

    fn take_out(&mut self, block: &Block) {
        for (pools, place) in self.pools.iter_mut().zip(block.pooled) {
            pools.take_out(place, block.bytes);
        }
        self.best_fit.take_out(block.chunk);
        self.now.live = self.now.live.saturating_sub(block.bytes);
    }

    /// Adds this moment to means and peaks, and keeps one in so many.
    fn note(&mut self) {
        let [classes, lifetimes, threads, sizes] = self.pools.each_ref().map(Pools::live_pages);
        let pages = [classes, self.best_fit.live_pages(), lifetimes, threads, sizes];
        self.now.pages = pages.map(|pages| pages.saturating_mul(PAGE));
        self.bounds.events += 1;
        self.sums.0 += self.now.live as f64;
        self.bounds.live.peak = self.bounds.live.peak.max(self.now.live);
        for ((sum, figures), bytes) in self.sums.1.iter_mut().zip(&mut self.bounds.pages).zip(self.now.pages)
        {
            *sum += bytes as f64;
            figures.peak = figures.peak.max(bytes);
        }
        self.course.push(self.now);
    }

    fn end(mut self) -> Bounds {
        let events = self.bounds.events.max(1) as f64;
        self.bounds.live = Figures { mean: self.sums.0 / events, end: self.now.live, ..self.bounds.live };
        for ((sum, figures), end) in self.sums.1.iter().zip(&mut self.bounds.pages).zip(self.now.pages) {
            (figures.mean, figures.end) = (sum / events, end);
        }
        if self.bounds.events > 0 {
            self.bounds.course = self.course.ending_with(self.now);
        }
        self.bounds
    }
}
