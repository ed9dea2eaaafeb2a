//! Large blocks that were freed a moment ago, for the next request that one of them fits: no lock, no free run to be looked
//! for, no word of the page map to be written.
//!
//! Such a block is open in the page map and counted as in use; to the program it is free, and a second free of it is known. A
//! tick, a look at the figures, a limit and a heap that is about to grow close all of them: whoever takes the lock by
//! `Pages::lock`. They are bounded by places and by bytes (docs/decisions/0118).

use super::delayed::DelayedFrees;
use crate::base::sync::{AtomicUsize, Ordering, update};

/// A block that serves has at most this part more than was asked for.
pub(super) const LONGER_PART: u32 = 8;
/// A block has at most this part of the bytes that all may have.
pub(super) const BLOCK_PART: usize = 2;
/// The bytes that all may have, before upkeep has said so and where it has no thread to look after them.
pub const LEAST_KEPT: usize = 2 << 20;

pub struct Kept {
    pub(super) frees: DelayedFrees,
    pub(super) bytes: AtomicUsize,
    pub(super) most: AtomicUsize,
}

impl Kept {
    pub const fn new() -> Self {
        Kept { frees: DelayedFrees::new(), bytes: AtomicUsize::new(0), most: AtomicUsize::new(LEAST_KEPT) }
    }

    pub fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A program that resizes a block which another of its threads frees may have changed its length: never below nothing.
    pub(super) fn discount(&self, bytes: usize) {
        let _ =
            update(&self.bytes, Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_sub(bytes)));
    }

    #[inline]
    pub fn holds(&self, block: u64) -> bool {
        self.frees.has_any() && self.frees.holds(block)
    }

    /// In a forked child, when all are closed: a thread that had counted one and not put it yet stayed in the parent.
    pub fn forget_bytes(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// In a forked child: no thread is about to put or take one.
    pub fn forget_threads(&self) {
        self.frees.forget_threads();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ticks::Tick;
    use crate::class::UNIT_BYTES;
    use crate::large::Large;
    use crate::os::Linux;
    use crate::pages::Pages;

    fn started() -> (Linux, Pages<Linux>, Large) {
        let (os, pages) = (Linux::new(), Pages::new());
        assert!(pages.start(&os));
        (os, pages, Large::new())
    }

    fn is_empty(pages: &Pages<Linux>) -> bool {
        !pages.kept.frees.has_any() && pages.kept.bytes.load(Ordering::Relaxed) == 0
    }

    #[test]
    fn a_freed_block_serves_the_next_request_that_it_fits_and_the_lock_is_not_taken() {
        let (os, pages, large) = started();
        let block = large.allocate(&os, &pages, 800_000, 16).unwrap().address;
        large.free(&pages, block).unwrap();
        pages.each_lock(&mut |lock| lock.hold());
        let next = large.allocate(&os, &pages, 790_000, 16).map(|fresh| (fresh.address, fresh.zeroed));
        assert_eq!(next, Some((block, false)));
        large.free(&pages, block).unwrap();
        assert_eq!(large.free(&pages, block).unwrap_err().fault, crate::base::fault::Fault::DoubleFree);
        // SAFETY: held above by this thread.
        pages.each_lock(&mut |lock| unsafe { lock.release() });
        // Too short for a block that is an eighth longer, and aligned ones are looked for.
        let others = [600_000, 900_000].map(|bytes| large.allocate(&os, &pages, bytes, 16).unwrap().address);
        assert!(!others.contains(&block));
        pages.verify();
    }

    #[test]
    fn kept_blocks_have_at_most_their_bytes_and_a_look_at_the_pages_closes_them() {
        let (os, pages, large) = started();
        let take = |bytes| large.allocate(&os, &pages, bytes, 16).unwrap().address;
        let blocks: Vec<usize> = (0..40).map(|_| take(300_000)).collect();
        let long = take(2 * LEAST_KEPT / BLOCK_PART);
        blocks.iter().chain([&long]).for_each(|block| large.free(&pages, *block).unwrap());
        let bytes = pages.kept.bytes.load(Ordering::Relaxed);
        assert!((LEAST_KEPT / 2..=LEAST_KEPT).contains(&bytes), "{bytes}");
        assert_eq!(pages.stats().large.blocks, 0);
        assert!(is_empty(&pages));
        pages.verify();
    }

    #[test]
    fn a_heap_that_would_grow_uses_what_is_kept_first() {
        let (os, pages, large) = started();
        let take = |bytes| large.allocate(&os, &pages, bytes, 16).unwrap().address;
        let mut blocks: Vec<usize> = (0..8).map(|_| take(1 << 20)).collect();
        blocks.sort_unstable();
        let stats = pages.stats();
        let holes = (stats.mapped - stats.used) as usize / UNIT_BYTES;
        (0..holes).for_each(|_| _ = take(UNIT_BYTES));
        let mapped = pages.mapped_bytes();
        let beside =
            blocks.windows(2).find(|pair| pair[1] - pair[0] == 1 << 20).expect("two beside each other");
        beside.iter().for_each(|block| large.free(&pages, *block).unwrap());
        assert_eq!(pages.kept.bytes.load(Ordering::Relaxed), 2 << 20);
        assert_eq!(take(1_800_000), beside[0]);
        assert_eq!(pages.mapped_bytes(), mapped);
    }

    #[test]
    fn a_child_closes_what_its_parent_kept() {
        let (os, pages, large) = started();
        let block = large.allocate(&os, &pages, 400_000, 16).unwrap().address;
        large.free(&pages, block).unwrap();
        // As a thread leaves it that stayed in the parent in between.
        pages.kept.count(100_000);
        // SAFETY: no other thread uses the pages.
        unsafe { pages.repair(true) };
        assert!(is_empty(&pages));
        assert_eq!(pages.stats().large.blocks, 0);
        pages.clock.advance(crate::base::ticks::Ticks(1));
        assert!(pages.clock.load().is_since(Tick(0)));
        pages.verify();
    }

    #[test]
    fn threads_that_free_and_take_large_blocks_have_each_block_once() {
        let (os, pages, large) = started();
        std::thread::scope(|scope| {
            for thread in 1..=4u8 {
                let (os, pages, large) = (&os, &pages, &large);
                scope.spawn(move || {
                    let mut blocks = [(0usize, 0usize); 4];
                    for turn in 0..4000usize {
                        let place = &mut blocks[turn % 4];
                        if place.0 != 0 {
                            assert!(crate::base::memory::holds(place.0, 64, thread), "somebody else has it");
                            large.free(pages, place.0).unwrap();
                        }
                        let bytes = 300_000 + turn * 7919 % 300_000;
                        *place = (large.allocate(os, pages, bytes, 16).unwrap().address, bytes);
                        crate::base::memory::fill(place.0, 64, thread);
                    }
                    blocks.into_iter().for_each(|(block, _)| large.free(pages, block).unwrap());
                });
            }
        });
        assert_eq!(pages.stats().large.blocks, 0);
        pages.verify();
    }
}
