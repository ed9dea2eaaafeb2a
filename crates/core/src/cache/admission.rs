//! Whether more room for a class would save enough time to be worth its memory.
//!
//! A miss costs some 300 ns. Room that lets a class hold as many blocks more as one miss moves spares about
//! one such miss whenever the class swings from too few blocks to too many. So what matters is how often it
//! misses, against the share of the heap that it moves: `WORTH`. And blocks that only flow through, allocated
//! on one CPU and freed on another, pass a long array as they pass a short one: no room is ever enough for
//! them, and what is given holds blocks that nobody needs.

use super::Middle;
use super::slab::{Info, Slab};
use crate::base::sync::Ordering;
use crate::class::{MOST_BATCH, SizeClass};
use crate::os::Os;

/// Nanoseconds between two misses of a class that each move as much as the whole heap; rarer misses are worth
/// no room. It is one price for all shares: for a percent of the heap a miss in 1.5 ms, which is 0.02 % of a CPU.
const WORTH: u64 = 15_000;

/// Time is kept in units of 1,024 ns, of which 31 bits last for 36 minutes; then a miss may seem more recent
/// than it is.
const TIME_SHIFT: u32 = 10;
const TIME_MASK: u32 = u32::MAX >> 1;

/// How long a look at the size of the heap is good for: a quarter of a millisecond.
const HEAP_LOOK: u32 = 256;

/// A miss of a fast path: of a block, or of a place for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    Underflow,
    Overflow,
}

/// The kind of a class's last miss, and when one was last that asked for more than a small array.
#[derive(Clone, Copy)]
struct LastMiss {
    kind: Miss,
    /// In units of `TIME_SHIFT`, 31 bits; 0: never.
    asked_at: u32,
}

impl LastMiss {
    fn of(slab: Slab, class: SizeClass) -> Self {
        let word = slab.info().last_miss.get(class.index()).map_or(0, |word| word.load(Ordering::Relaxed));
        let kind = if word & 1 == 0 { Miss::Underflow } else { Miss::Overflow };
        LastMiss { kind, asked_at: word >> 1 }
    }

    fn keep(self, slab: Slab, class: SizeClass) {
        if let Some(word) = slab.info().last_miss.get(class.index()) {
            word.store(self.asked_at << 1 | u32::from(self.kind == Miss::Overflow), Ordering::Relaxed);
        }
    }
}

/// Blocks that a cache of this capacity moves to or from the middle in one go: the busier the class, the
/// more.
pub(super) fn moved_at_once(class: SizeClass, capacity: usize) -> usize {
    let calm = (class.shape().batch as usize).min(capacity + 1);
    (capacity / 2).clamp(calm, most_moved(class).max(calm))
}

fn most_moved(class: SizeClass) -> usize {
    (4 * class.shape().batch as usize).min(MOST_BATCH)
}

/// Notes a miss. Whether a longer array could hold what made the class miss. As long as more than now could
/// move at once, it can; later only when the class turns from too few blocks to too many: once in each of its
/// swings, and never where blocks only flow through.
pub(super) fn may_help(slab: Slab, class: SizeClass, capacity: usize, miss: Miss) -> bool {
    let last = LastMiss::of(slab, class);
    let turned = last.kind != miss;
    if turned {
        LastMiss { kind: miss, ..last }.keep(slab, class);
    }
    capacity / 2 < most_moved(class) || turned && miss == Miss::Overflow
}

/// After a miss for which there was no room: lets the next one of its kind ask again.
pub(super) fn ask_again(slab: Slab, class: SizeClass, miss: Miss) {
    let kind = if miss == Miss::Overflow { Miss::Underflow } else { Miss::Overflow };
    LastMiss { kind, ..LastMiss::of(slab, class) }.keep(slab, class);
}

/// Whether a class that missed just now, and that more room may help, misses often enough to have it.
pub(super) fn is_worth_room<O: Os>(
    store: &impl Middle<O>,
    slab: Slab,
    class: SizeClass,
    capacity: usize,
) -> bool {
    let time = (store.os().now() >> TIME_SHIFT) as u32 & TIME_MASK;
    let last = LastMiss::of(slab, class);
    LastMiss { asked_at: time, ..last }.keep(slab, class);
    let elapsed = u64::from(time.wrapping_sub(last.asked_at) & TIME_MASK) << TIME_SHIFT;
    let moved = moved_at_once(class, capacity) * class.block_bytes();
    let heap = heap_bytes(store, slab.info(), time) as u64;
    last.asked_at == 0 || elapsed.saturating_mul(moved as u64) <= WORTH.saturating_mul(heap)
}

/// How much a class needs room: its misses of late for each byte that it may hold.
pub(super) fn need_of(slab: Slab, class: SizeClass) -> f32 {
    let misses = slab.info().misses.get(class.index()).map_or(0, |misses| misses.load(Ordering::Relaxed));
    let blocks = slab.read(class).capacity(class).max(1);
    misses as f32 / (blocks * class.block_bytes()) as f32
}

/// Counts a miss of a class.
pub(super) fn count_miss(slab: Slab, class: SizeClass) {
    if let Some(misses) = slab.info().misses.get(class.index()) {
        misses.store(misses.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }
}

/// Lets what is known of misses count half.
pub(super) fn forget_half(slab: Slab) {
    for misses in &slab.info().misses {
        misses.store(misses.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
    }
}

/// Notes a malloc that found nothing and takes a single block from the middle.
pub(super) fn note_underflow(slab: Slab, class: SizeClass) {
    LastMiss { kind: Miss::Underflow, ..LastMiss::of(slab, class) }.keep(slab, class);
}

/// The size of the heap, of a while ago: it belongs to the page heap's lock, and no miss waits for that.
fn heap_bytes<O: Os>(store: &impl Middle<O>, info: &Info, time: u32) -> usize {
    let seen = info.heap_bytes.load(Ordering::Relaxed);
    if seen != 0 && time.wrapping_sub(info.heap_seen_at.load(Ordering::Relaxed)) < HEAP_LOOK {
        return seen;
    }
    let Some(now) = store.pages().footprint_now() else { return seen };
    info.heap_bytes.store(now, Ordering::Relaxed);
    info.heap_seen_at.store(time, Ordering::Relaxed);
    now
}
