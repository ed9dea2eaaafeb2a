//! Large blocks that were freed while another thread held the pages' lock.
//!
//! Who frees one does not wait for the lock: it posts the block, and the next thread that takes the lock closes
//! it first. With many more threads than CPUs the holder of a lock may not run for a while, and each thread
//! that waited to free would hold a long block all that time.

use crate::base::sync::{AtomicUsize, Ordering};

/// Blocks that can wait. Beyond that who frees waits too.
#[cfg(not(loom))]
const PLACES: usize = 16;
#[cfg(loom)]
const PLACES: usize = 2;

/// Addresses of blocks that are to be closed. On cache lines of their own, which nobody writes to while the lock is
/// free when it is needed.
#[repr(align(128))]
pub struct Posted {
    /// Blocks that are here or about to be: never less than are.
    count: AtomicUsize,
    places: [AtomicUsize; PLACES],
}

/// What became of a block that was to be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    Left,
    /// No place: not posted.
    Full,
    /// It is there already: freed twice.
    Twice,
}

impl Posted {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Posted { count: AtomicUsize::new(0), places: [const { AtomicUsize::new(0) }; PLACES] }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Posted { count: AtomicUsize::new(0), places: [(); PLACES].map(|()| AtomicUsize::new(0)) }
    }

    /// Any thread may call.
    #[cold]
    pub fn post(&self, address: usize) -> Post {
        let copies = || self.places.iter().filter(|place| place.load(Ordering::SeqCst) == address).count();
        if copies() > 0 {
            return Post::Twice;
        }
        // Before the block is there: a thread that looks at the count misses none that was left.
        self.count.fetch_add(1, Ordering::SeqCst);
        // Release pairs with the Acquire in `take`: what this thread did with the block is done.
        let leave = |place: &AtomicUsize| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, address, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        if !self.places.iter().any(leave) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Post::Full;
        }
        // Of two threads that post one block at once, the later sees the earlier's, unless that was taken.
        if copies() > 1 { Post::Twice } else { Post::Left }
    }

    /// False where nothing was posted before the caller took the lock.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Takes what is there. For the holder of the lock.
    pub fn take(&self) -> impl Iterator<Item = usize> {
        let waiting = self.places.iter().filter(|place| place.load(Ordering::Relaxed) != 0);
        waiting.map(|place| {
            let address = place.swap(0, Ordering::Acquire);
            self.count.fetch_sub(1, Ordering::Relaxed);
            address
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_posted_is_taken_once_and_no_more_than_there_are_places() {
        let posted = Posted::new();
        assert!(!posted.has_any());
        for number in 1..=PLACES {
            assert_eq!(posted.post(number), Post::Left);
        }
        assert_eq!((posted.post(PLACES + 1), posted.post(3)), (Post::Full, Post::Twice));
        assert!(posted.has_any());
        assert!(posted.take().eq(1..=PLACES));
        assert!(!posted.has_any() && posted.take().next().is_none());
        assert_eq!(posted.post(3), Post::Left, "it is a new block by now");
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// What two threads heard that post these, and what was taken meanwhile and afterwards.
    fn race(
        blocks: [usize; 2],
        takes_meanwhile: bool,
        check: impl Fn([Post; 2], Vec<usize>) + Send + Sync + 'static,
    ) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let posted = Arc::new(Posted::new());
            let threads = blocks.map(|address| {
                let posted = posted.clone();
                loom::thread::spawn(move || posted.post(address))
            });
            let mut taken = Vec::new();
            if takes_meanwhile {
                taken.extend(posted.take());
            }
            let heard = threads.map(|thread| thread.join().unwrap());
            let left = heard.iter().filter(|post| **post == Post::Left).count();
            assert!(posted.has_any() || taken.len() >= left, "nothing is there unseen");
            taken.extend(posted.take());
            assert!(!posted.has_any());
            taken.sort_unstable();
            check(heard, taken);
        });
    }

    #[test]
    fn loom_each_block_that_was_posted_is_taken_once() {
        race([16, 32], true, |heard, taken| {
            assert_eq!((heard, taken), ([Post::Left; 2], vec![16, 32]));
        });
    }

    #[test]
    fn loom_of_two_threads_that_post_one_block_one_is_told() {
        race([16, 16], false, |heard, _| assert!(heard.contains(&Post::Twice)));
    }

    #[test]
    fn loom_a_block_that_was_posted_twice_and_taken_meanwhile_is_told_or_taken_twice() {
        race([16, 16], true, |heard, taken| assert!(heard.contains(&Post::Twice) || taken == [16, 16]));
    }
}
