//! Whether more room for a class would save enough time to be worth its memory.
//!
//! A miss costs some 300 ns. Room that lets a class hold as many blocks more as one miss moves spares about one such miss
//! whenever the class swings from too few blocks to too many. So what matters is how often it misses, against the share of
//! the heap that it moves: `WORTH`. And blocks that only flow through, allocated on one CPU and freed on another, pass a long
//! array as they pass a short one: no room is ever enough for them, and what is given holds blocks that nobody needs.

use super::Below;
use super::slab::{Info, Slab};
use crate::base::sync::Ordering;
use crate::class::{MOST_BATCH, SizeClass};
use crate::os::Os;

/// Nanoseconds between two misses of a class that each move as much as the whole heap; rarer misses are worth no room. The same
/// for all shares: for a percent of the heap one in 1.5 ms, which is 0.02 % of a CPU.
const WORTH: u64 = 15_000;

/// Misses of a virtual CPU from one look at the clock to the next.
const TIMED_MISSES: u64 = 32;

/// What a fast path missed: a block, or a place for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    Underflow,
    Overflow,
}

/// Blocks that a cache of this capacity moves to or from the middle in one go: the busier the class, the more.
pub(super) fn moved_at_once(class: SizeClass, capacity: usize) -> usize {
    let calm = (class.shape().batch as usize).min(capacity + 1);
    (capacity / 2).clamp(calm, most_moved(class).max(calm))
}

fn most_moved(class: SizeClass) -> usize {
    (4 * class.shape().batch as usize).min(MOST_BATCH)
}

/// Whether a class that missed just now is to have more room, if there is any.
pub(super) fn is_worth_room<O: Os>(below: Below<'_, O>, slab: &Slab, class: SizeClass, miss: Miss) -> bool {
    let info = slab.info();
    look_at_the_clock(below, info);
    let Some(last) = info.last_miss.get(class.index()) else { return false };
    let before = last.load(Ordering::Relaxed);
    let now = (info.misses() as u32) << 1 | u32::from(miss == Miss::Overflow);
    let capacity = slab.read(class).capacity(class);
    let turned = (before ^ now) & 1 != 0;
    if !turned && capacity / 2 >= most_moved(class) {
        return false;
    }
    last.store(now, Ordering::Relaxed);
    let misses = u64::from(now.wrapping_sub(before) >> 1);
    let elapsed = misses.saturating_mul(info.miss_interval.load(Ordering::Relaxed));
    let moved = moved_at_once(class, capacity) * class.block_bytes();
    elapsed.saturating_mul(moved as u64) <= WORTH.saturating_mul(info.heap_bytes.load(Ordering::Relaxed))
}

/// Takes the rate of misses, and the size of the heap, once in a while.
fn look_at_the_clock<O: Os>(below: Below<'_, O>, info: &Info) {
    let misses = info.misses();
    let since = misses.saturating_sub(info.timed_misses.load(Ordering::Relaxed));
    let before = info.timed_at.load(Ordering::Relaxed);
    if since < TIMED_MISSES && before != 0 {
        return;
    }
    let now = below.os.now();
    info.timed_misses.store(misses, Ordering::Relaxed);
    info.timed_at.store(now, Ordering::Relaxed);
    if before != 0 {
        info.miss_interval.store(now.saturating_sub(before) / since.max(1), Ordering::Relaxed);
        info.heap_bytes.store(below.pages.footprint() as u64, Ordering::Relaxed);
    }
}
