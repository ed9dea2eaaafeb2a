//! Shedding, for a heap that grows although it holds plenty: free memory goes before the next tick, in portions.
//!
//! After slow paths `shed` is called where the footprint passed a watermark; each tick moves the watermark.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::ticks::Ticks;
use crate::os::Os;

/// A heap with plenty of free memory gives some back each time it grows by this part of what lives, and these
/// bytes at least.
const GROWTH_PART: usize = 8;
pub(crate) const LEAST_GROWTH: usize = 8 << 20;
/// So many spans and free bytes at a time, some hundred microseconds; and so many looks for such spans.
pub(crate) const SPANS_PER_PORTION: u32 = 64;
pub(crate) const BYTES_PER_PORTION: usize = 2 << 20;
const LOOKS_PER_PORTION: u32 = 8192;

/// How far shedding has come.
pub struct Shedding {
    /// A thread sheds a portion.
    pub(crate) is_under_way: AtomicBool,
    /// The span from which shedding goes on.
    from: AtomicU32,
    /// Bytes that were shed since the last tick.
    shed: AtomicU64,
}

impl Shedding {
    pub const fn new() -> Self {
        Shedding { is_under_way: AtomicBool::new(false), from: AtomicU32::new(0), shed: AtomicU64::new(0) }
    }

    /// In a forked child: no other thread sheds.
    pub fn forget_thread(&self) {
        self.is_under_way.store(false, Ordering::Relaxed);
    }

    /// Counts bytes that went between two ticks.
    pub(super) fn note_shed(&self, bytes: usize) {
        self.shed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The bytes that were shed since somebody last asked.
    pub fn take_shed(&self) -> usize {
        self.shed.swap(0, Ordering::Relaxed) as usize
    }
}

impl<O: Os> Upkeep<O> {
    /// Gives a portion back where the heap holds plenty. Each time the heap has grown by a step, so that the work
    /// is small against that of the growth; and in portions, so that no caller of malloc waits for all of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn shed(&self, floors: &Floors<O>) {
        let under_way = &self.shedding.is_under_way;
        if under_way.load(Ordering::Relaxed) || under_way.swap(true, Ordering::Acquire) {
            return;
        }
        let holding = self.holding_now(floors);
        // Memory that may be retained need not go, however plenty it is.
        let is_too_much = holding.is_plenty() && holding.unwanted() > holding.retained;
        if !is_too_much || self.shed_portion(floors, holding.retained.max(holding.wanted)) {
            self.shedding.from.store(0, Ordering::Relaxed);
            self.watch_growth(floors, holding.live);
        }
        under_way.store(false, Ordering::Release);
    }

    /// Gives back the idle pages of some spans, and some of the free memory beyond `kept` bytes; true when all
    /// spans had their turn and no such memory is left, or where the system takes none.
    fn shed_portion(&self, floors: &Floors<O>, kept: usize) -> bool {
        let (in_spans, spans_are_done) = self.subrelease_next(floors);
        let dirty = floors.pages.dirty_free_bytes();
        let released =
            floors.pages.release(&floors.os, kept.max(dirty.saturating_sub(BYTES_PER_PORTION)), Ticks(0));
        self.count_released(in_spans + released);
        self.shedding.note_shed(in_spans + released);
        let is_refused = released == 0 && dirty > kept;
        is_refused || spans_are_done && dirty <= kept + BYTES_PER_PORTION
    }

    /// Gives back the idle pages of the next spans in turn: the bytes, and whether all had their turn.
    fn subrelease_next(&self, floors: &Floors<O>) -> (usize, bool) {
        let (spans, from) = (floors.pages.span_count(), self.shedding.from.load(Ordering::Relaxed));
        let mut end = spans.min(from.saturating_add(LOOKS_PER_PORTION));
        let (mut in_spans, mut count) = (0, 0);
        for id in floors.pages.candidates_in(from..end) {
            in_spans += floors.subrelease(id, Ticks(0));
            count += 1;
            if count == SPANS_PER_PORTION {
                end = id.0 + 1;
                break;
            }
        }
        self.shedding.from.store(end, Ordering::Relaxed);
        (in_spans, end >= spans)
    }

    /// The idle pages of some spans, one thread at a time; true where all had their turn, or another thread is at it.
    pub(super) fn subrelease_portion(&self, floors: &Floors<O>) -> (usize, bool) {
        let under_way = &self.shedding.is_under_way;
        if under_way.swap(true, Ordering::Acquire) {
            return (0, true);
        }
        let (bytes, is_over) = self.subrelease_next(floors);
        if is_over {
            self.shedding.from.store(0, Ordering::Relaxed);
        }
        under_way.store(false, Ordering::Release);
        (bytes, is_over)
    }

    /// Has `shed` called when the heap has grown by a step from now.
    pub(crate) fn watch_growth(&self, floors: &Floors<O>, live: usize) {
        let step = (live / GROWTH_PART).max(LEAST_GROWTH);
        floors.pages.limits.footprint.set(floors.pages.footprint() + step);
    }
}
