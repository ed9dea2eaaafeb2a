//! Large blocks and spans that were freed while another thread held the pages' lock.
//!
//! A thread that frees one does not wait for the lock: its free is delayed, and the next holder of the lock closes
//! the block first. With many more threads than CPUs the holder of a lock may not run for a while, and each thread
//! that waited to free would hold a long block all that time.

use crate::base::ceilings::DELAYED_FREES;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};

/// Blocks that are to be closed, as numbers that are not 0. On cache lines of their own, which nobody writes to as long as
/// the lock is free when it is needed.
#[repr(align(128))]
pub struct DelayedFrees {
    /// Blocks that are here or about to be: never less than are.
    count: AtomicUsize,
    places: [AtomicU64; DELAYED_FREES],
    /// The address of a block that was found here although it had been freed; 0 for none.
    pub freed_twice: AtomicUsize,
}

/// The outcome of posting a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    Left,
    /// No place: not delayed.
    Full,
    /// It is there already: freed twice.
    Twice,
}

impl DelayedFrees {
    /// The offset of its places.
    pub(super) const PLACES: usize = core::mem::offset_of!(Self, places);

    #[cfg(not(loom))]
    pub const fn new() -> Self {
        DelayedFrees {
            count: AtomicUsize::new(0),
            places: [const { AtomicU64::new(0) }; DELAYED_FREES],
            freed_twice: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        DelayedFrees {
            count: AtomicUsize::new(0),
            places: [(); DELAYED_FREES].map(|()| AtomicU64::new(0)),
            freed_twice: AtomicUsize::new(0),
        }
    }

    /// Any thread may call that owns the block, or wrongly thinks so.
    pub fn delay(&self, block: u64) -> Delay {
        if self.holds(block) {
            return Delay::Twice;
        }
        // Before the block is there, so that who takes it finds it counted.
        self.count.fetch_add(1, Ordering::Relaxed);
        // Release pairs with the Acquire in `take`: this thread's work with the block is done.
        let leave = |place: &AtomicU64| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, block, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if self.places.iter().any(leave) {
            return Delay::Left;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        Delay::Full
    }

    /// Whether a block is there. For its owner, who sees whatever was before the block became his: no earlier post
    /// of it. (After a post of his own the block may have another owner, who may post it too.)
    pub fn holds(&self, block: u64) -> bool {
        self.places.iter().any(|place| place.load(Ordering::Relaxed) == block)
    }

    /// In a forked child: no thread is about to post.
    pub fn forget_threads(&self) {
        let waiting = self.places.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count();
        if self.count.load(Ordering::Relaxed) != waiting {
            self.count.store(waiting, Ordering::Relaxed);
        }
    }

    /// True where something was delayed, or is about to be.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Takes one that `fits`. Any thread may call; the block is its own then.
    pub fn take_one(&self, fits: impl Fn(u64) -> bool) -> Option<u64> {
        for place in &self.places {
            let block = place.load(Ordering::Relaxed);
            if block != 0
                && fits(block)
                // Acquire pairs with the Release in `delay`.
                && place.compare_exchange(block, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                self.count.fetch_sub(1, Ordering::Relaxed);
                return Some(block);
            }
        }
        None
    }

    /// Takes one after the other of those that are there. For the holder of the lock.
    pub fn take(&self) -> impl Iterator<Item = u64> {
        let waiting = self.places.iter().filter(|place| place.load(Ordering::Relaxed) != 0);
        waiting.filter_map(|place| {
            let block = place.swap(0, Ordering::Acquire);
            // Another thread may have taken it since the look.
            (block != 0).then(|| {
                self.count.fetch_sub(1, Ordering::Relaxed);
                block
            })
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_posted_is_taken_once_and_no_more_than_there_are_places() {
        let delayed = DelayedFrees::new();
        assert!(!delayed.has_any());
        for number in 1..=DELAYED_FREES as u64 {
            assert_eq!(delayed.delay(number), Delay::Left);
        }
        assert_eq!((delayed.delay(DELAYED_FREES as u64 + 1), delayed.delay(3)), (Delay::Full, Delay::Twice));
        assert!(delayed.has_any());
        assert!(delayed.take().eq(1..=DELAYED_FREES as u64));
        assert!(!delayed.has_any() && delayed.take().next().is_none());
        assert_eq!(delayed.delay(3), Delay::Left, "it is a new block by now");
    }

    #[test]
    fn one_that_fits_is_taken_by_one() {
        let delayed = DelayedFrees::new();
        delayed.delay(5);
        delayed.delay(7);
        assert_eq!(delayed.take_one(|block| block > 7), None);
        assert_eq!(
            (delayed.take_one(|block| block > 5), delayed.take_one(|block| block > 5)),
            (Some(7), None)
        );
        assert!(delayed.take().eq([5]) && !delayed.has_any());
    }

    #[test]
    fn a_child_forgets_a_thread_that_was_about_to_post() {
        let delayed = DelayedFrees::new();
        delayed.delay(5);
        delayed.count.fetch_add(1, Ordering::Relaxed);
        delayed.forget_threads();
        assert!(delayed.take().eq([5]) && !delayed.has_any());
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::sync::UnsafeCell;
    use loom::sync::Arc;

    /// Checks the answers to two threads that post these, and the blocks taken meanwhile and afterwards.
    fn race(
        blocks: [u64; 2],
        takes_meanwhile: bool,
        check: impl Fn([Delay; 2], Vec<u64>) + Send + Sync + 'static,
    ) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let delayed = Arc::new(DelayedFrees::new());
            let threads = blocks.map(|block| {
                let delayed = delayed.clone();
                loom::thread::spawn(move || delayed.delay(block))
            });
            let mut taken = Vec::new();
            // Not one look alone: loom would not try it at each instant.
            while takes_meanwhile && taken.is_empty() {
                loom::thread::yield_now();
                taken.extend(delayed.take());
            }
            let heard = threads.map(|thread| thread.join().unwrap());
            let left = heard.iter().filter(|delay| **delay == Delay::Left).count();
            assert!(delayed.has_any() || taken.len() >= left, "nothing is there unseen");
            taken.extend(delayed.take());
            assert!(!delayed.has_any());
            taken.sort_unstable();
            check(heard, taken);
        });
    }

    #[test]
    fn loom_each_block_that_was_posted_is_taken_once() {
        race([16, 32], true, |heard, taken| {
            assert_eq!((heard, taken), ([Delay::Left; 2], vec![16, 32]));
        });
    }

    #[test]
    fn loom_a_block_that_two_threads_want_is_had_by_one() {
        loom::model(|| {
            let delayed = Arc::new(DelayedFrees::new());
            delayed.delay(16);
            let other = delayed.clone();
            let thread = loom::thread::spawn(move || other.take_one(|_| true));
            let taken = delayed.take().count();
            assert_eq!(taken + usize::from(thread.join().unwrap().is_some()), 1);
            assert!(!delayed.has_any());
        });
    }

    #[test]
    fn loom_of_two_threads_that_post_one_block_one_is_told_or_both_are_taken() {
        for takes_meanwhile in [false, true] {
            race([16, 16], takes_meanwhile, |heard, taken| {
                let told = heard.iter().filter(|delay| **delay == Delay::Twice).count();
                assert_eq!((told < 2, taken.len()), (true, 2 - told));
            });
        }
    }

    #[test]
    fn loom_who_takes_a_block_comes_after_who_posted_it() {
        loom::model(|| {
            let shared = Arc::new((DelayedFrees::new(), UnsafeCell::new(0)));
            let other = shared.clone();
            // SAFETY: the thread that has the block uses it. Loom looks.
            let write = |block: &UnsafeCell<u32>| block.with_mut(|block| unsafe { *block += 1 });
            let thread = loom::thread::spawn(move || {
                write(&other.1);
                other.0.delay(16)
            });
            while shared.0.take().map(|_| write(&shared.1)).count() == 0 {
                loom::thread::yield_now();
            }
            thread.join().unwrap();
        });
    }
}
