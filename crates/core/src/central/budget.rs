//! The exact bound on cached bytes.
//!
//! A cache or a transfer array takes *room* from here first, block size by block size; it never holds more
//! than the room taken. The sum therefore holds at any number of threads, without looking at a single
//! cache.

use crate::base::sync::{AtomicUsize, Ordering};

/// Room for cached bytes, shared by all vCPU caches and transfer arrays. Any thread may call.
pub struct Budget {
    pub(super) limit: AtomicUsize,
    pub(super) taken: AtomicUsize,
    pub(super) most_taken: AtomicUsize,
}

impl Budget {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Budget { limit: AtomicUsize::new(0), taken: AtomicUsize::new(0), most_taken: AtomicUsize::new(0) }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Budget { limit: AtomicUsize::new(0), taken: AtomicUsize::new(0), most_taken: AtomicUsize::new(0) }
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the bound for what is taken from now on; room beyond a lowered bound must be given back by its
    /// holders.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The most that was ever taken at once.
    pub fn most_taken(&self) -> usize {
        self.most_taken.load(Ordering::Relaxed)
    }

    /// The bytes that could be taken just now.
    pub fn room(&self) -> usize {
        self.limit().saturating_sub(self.taken())
    }

    /// Whether `take` would have succeeded just now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.taken().saturating_add(bytes) <= self.limit()
    }

    /// Takes all of `bytes` or nothing.
    pub fn take(&self, bytes: usize) -> bool {
        let mut before = self.taken.load(Ordering::Relaxed);
        loop {
            let Some(after) = before.checked_add(bytes).filter(|after| *after <= self.limit()) else {
                return false;
            };
            match self.taken.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.most_taken.fetch_max(after, Ordering::Relaxed);
                    return true;
                }
                Err(now) => before = now,
            }
        }
    }

    pub fn give(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_two_takers_never_exceed_the_limit_together() {
        loom::model(|| {
            let budget = Arc::new(Budget::new());
            budget.set_limit(10);
            let other = budget.clone();
            let thread = loom::thread::spawn(move || other.take(6));
            let mine = budget.take(6);
            let theirs = thread.join().unwrap();
            assert!(!(mine && theirs));
            assert_eq!(budget.taken(), 6 * (usize::from(mine) + usize::from(theirs)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_whole_or_not_at_all() {
        let budget = Budget::new();
        assert!(!budget.take(1), "nothing may be cached before the limit is known");
        budget.set_limit(100);
        assert!(budget.take(60) && !budget.take(41));
        assert!(budget.has_room(40) && !budget.has_room(41) && !budget.has_room(usize::MAX));
        assert!(budget.take(40) && budget.has_room(0) && !budget.has_room(1));
        assert_eq!((budget.taken(), budget.most_taken()), (100, 100));
        budget.give(100);
        assert!(!budget.take(usize::MAX));
        assert_eq!((budget.taken(), budget.most_taken()), (0, 100));
    }
}
