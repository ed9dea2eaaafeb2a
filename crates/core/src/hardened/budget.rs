//! How many blocks a second may have guard pages.
//!
//! One word, the time from which on the budget is whole again. Each block moves it by its share of a second; if it
//! would lie more than a second ahead there is nothing left. So at any time as many blocks as the rate says may come at
//! once, and no more than twice as many in any second.

use crate::base::sync::{AtomicU64, Ordering};

const SECOND: u64 = 1_000_000_000;

pub struct Budget {
    whole_at: AtomicU64,
}

impl Budget {
    pub const fn new() -> Self {
        Budget { whole_at: AtomicU64::new(0) }
    }

    /// Takes one of `rate` a second, if one is left. Without a lock: if two threads meet, one of them goes without.
    pub fn takes_one(&self, rate: u64, now: impl Fn() -> u64) -> bool {
        if rate == 0 {
            return false;
        }
        let (now, before) = (now(), self.whole_at.load(Ordering::Relaxed));
        let after = before.max(now) + SECOND / rate;
        after - now <= SECOND
            && self.whole_at.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_come_at_once_and_so_many_in_each_second_after_that() {
        let budget = Budget::new();
        let taken = |now: u64, tries: usize| (0..tries).filter(|_| budget.takes_one(100, || now)).count();
        assert_eq!((taken(SECOND, 1000), taken(SECOND, 1000)), (100, 0));
        assert_eq!((taken(SECOND + SECOND / 2, 1000), taken(9 * SECOND, 1000)), (50, 100));
        assert!(!budget.takes_one(0, || 99 * SECOND));
    }
}
