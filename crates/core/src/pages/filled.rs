//! Whether the program fills the large blocks that it takes: learned from blocks whose memory was new, when they are freed
//! (docs/design/growth.md).

use super::{HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, Pages};
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::os::Os;

/// Blocks that are watched at a time.
const WATCHED: usize = 8;
/// Ranges of lengths, each twice as long as the one before, from one huge page on.
const RANGES: usize = 16;
/// After so many filled ones the next is expected to be filled.
const ENOUGH: u32 = 2;
/// One in so many is left to page faults all the same, to be looked at.
const BLOCKS_PER_LOOK: u32 = 8;
/// Of one block so many huge pages are brought in ahead at most, 64 MiB: the caller waits for them.
pub(super) const MOST_AHEAD: u32 = 32;
/// Pages of a block that are looked at.
const PLACES: usize = 8;

/// Nothing here is exact: a block that is missed teaches nothing.
pub struct Filled {
    /// Filled blocks since the last one that was not, by range.
    seen: [AtomicU32; RANGES],
    turn: AtomicU32,
    /// New huge pages of a block that were left to page faults: the first, and how many; 0: none.
    watched: [AtomicU64; WATCHED],
    next: AtomicUsize,
    any: AtomicUsize,
}

fn range_of(huge_pages: u32) -> usize {
    (huge_pages.max(1).ilog2() as usize).min(RANGES - 1)
}

impl Filled {
    pub const fn new() -> Self {
        Filled {
            seen: [const { AtomicU32::new(0) }; RANGES],
            turn: AtomicU32::new(0),
            watched: [const { AtomicU64::new(0) }; WATCHED],
            next: AtomicUsize::new(0),
            any: AtomicUsize::new(0),
        }
    }

    /// Whether blocks of so many huge pages are filled, as far as is known.
    pub fn expects(&self, huge_pages: u32) -> bool {
        self.seen.get(range_of(huge_pages)).is_some_and(|seen| seen.load(Ordering::Relaxed) >= ENOUGH)
    }

    /// Whether the new memory of a block may be brought in ahead. Now and then not, for the sake of knowing.
    pub(super) fn grants(&self, huge_pages: u32) -> bool {
        self.expects(huge_pages)
            && !self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(BLOCKS_PER_LOOK)
    }

    /// A filled block speaks for those up to twice as long, one that was not for those down to half as long.
    fn learn(&self, huge_pages: u32, is_filled: bool) {
        let range = range_of(huge_pages);
        for (number, seen) in self.seen.iter().enumerate() {
            if is_filled && number <= range + 1 {
                let before = seen.load(Ordering::Relaxed);
                seen.store((before + 1).min(ENOUGH), Ordering::Relaxed);
            } else if !is_filled && number + 1 >= range {
                seen.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Watches the new huge pages of a block, in place of the one watched longest.
    pub(super) fn watch(&self, first: u32, huge_pages: u32) {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store((next + 1) % WATCHED, Ordering::Relaxed);
        let watched = u64::from(first) << u32::BITS | u64::from(huge_pages);
        self.watched.iter().skip(next).take(1).for_each(|place| place.store(watched, Ordering::Relaxed));
        self.any.store(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_watching(&self) -> bool {
        self.any.load(Ordering::Relaxed) != 0
    }

    /// The watched huge pages of a block that begin in a range of units, once.
    fn take(&self, start: u32, units: u32) -> Option<(u32, u32)> {
        let (mut found, mut is_any) = (None, false);
        for place in &self.watched {
            let watched = place.load(Ordering::Relaxed);
            let first = (watched >> u32::BITS) as u32;
            let is_inside = (first.saturating_mul(HUGE_PAGE_UNITS)).wrapping_sub(start) < units;
            if watched != 0 && is_inside && found.is_none() {
                let is_ours =
                    place.compare_exchange(watched, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
                found = is_ours.then_some((first, watched as u32));
            } else {
                is_any |= watched != 0;
            }
        }
        if !is_any {
            self.any.store(0, Ordering::Relaxed);
        }
        found
    }
}

impl<O: Os> Pages<O> {
    #[inline]
    pub fn is_watching_large(&self) -> bool {
        self.prefault.filled.is_watching()
    }

    /// Learns from a large block of the owner, who frees it now.
    #[cold]
    #[inline(never)]
    pub fn learn_filled(&self, os: &O, start: u32, units: u32) {
        let Some((first, huge_pages)) = self.prefault.filled.take(start, units) else { return };
        // It may have been made shorter.
        let huge_pages = huge_pages.min((start + units) / HUGE_PAGE_UNITS - first);
        if huge_pages == 0 {
            return;
        }
        let bytes = huge_pages as usize * HUGE_PAGE_BYTES;
        let (page, base) = (os.page_bytes(), self.address_of(first * HUGE_PAGE_UNITS));
        let is_there = |number: usize| {
            let at = base + bytes / PLACES * number - page;
            os.resident_bytes(at & !(page - 1), page).is_some_and(|resident| resident == page)
        };
        let is_filled = (1..=PLACES).all(is_there);
        self.prefault.filled.learn(huge_pages, is_filled);
    }

    /// Whether the program fills blocks of so many bytes, as far as is known.
    pub fn expects_filled(&self, bytes: usize) -> bool {
        self.prefault.filled.expects((bytes / HUGE_PAGE_BYTES) as u32)
    }
}
