//! The bits of the system calls that are not asked: of the process, and of the thread alone (`registration`).
//!
//! A filter is noted before the kernel has it. Until the kernel has answered, its bits stand in a place of their own, so that
//! those of a filter that it refuses go without what other threads have noted meanwhile. While all places are taken, a filter counts
//! as installed at once: to stay careful is always right. The thread's word is changed by its thread alone, and by handlers
//! that interrupt it.

use super::registration;
use crate::base::sync::{AtomicU64, Ordering};

const PLACES: usize = 4;
/// Bits of the thread's word in which filters are counted: a word that is as it was after one was noted shows that a handler
/// noted no other since.
const ONE_FILTER: u64 = 1 << 56;
const FILTERS: u64 = registration::STRICT - ONE_FILTER;
/// Every call, by a bit for each: below 56, and the highest two.
pub(super) const ALL: u64 = !FILTERS;
/// So many calls have a bit of their own.
pub(super) const MOST: usize = ONE_FILTER.trailing_zeros() as usize;

/// The calls that this process does not ask.
#[derive(Default)]
pub(super) struct Refusals {
    installed: AtomicU64,
    pending: [AtomicU64; PLACES],
}

/// A filter that was noted, or the strict mode, for when the kernel has answered.
#[derive(Clone, Copy)]
#[must_use]
pub enum Obeyed {
    /// The number of its place.
    InPlace(usize),
    /// As if it were installed.
    ForGood,
    /// The word of the thread before and after.
    ByThread(u64, u64),
}

impl Refusals {
    pub const fn new() -> Self {
        Refusals { installed: AtomicU64::new(0), pending: [const { AtomicU64::new(0) }; PLACES] }
    }

    #[inline]
    pub fn bits(&self) -> u64 {
        // First the places: bits that have left one are in `installed` by then.
        let pending = self.pending.iter().fold(0, |bits, place| bits | place.load(Ordering::Acquire));
        pending | self.installed.load(Ordering::Relaxed) | registration::refused().load(Ordering::Relaxed)
    }

    /// For good.
    pub fn add(&self, bits: u64) {
        self.installed.fetch_or(bits, Ordering::Relaxed);
    }

    /// Notes what a filter refuses, some bits at least.
    pub fn note(&self, bits: u64) -> Obeyed {
        let take =
            |place: &AtomicU64| place.compare_exchange(0, bits, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match self.pending.iter().position(take) {
            Some(place) => Obeyed::InPlace(place),
            None => {
                self.add(bits);
                Obeyed::ForGood
            }
        }
    }

    /// The same for this thread alone.
    pub fn note_by_thread(&self, bits: u64) -> Obeyed {
        let word = registration::refused();
        let mut before = word.load(Ordering::Relaxed);
        loop {
            let count = before.wrapping_add(ONE_FILTER) & FILTERS;
            let after = before & !FILTERS | bits | count;
            match word.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Obeyed::ByThread(before, after),
                Err(now) => before = now,
            }
        }
    }

    /// Once, with the kernel's answer.
    pub fn settle(&self, obeyed: Obeyed, is_installed: bool) {
        match obeyed {
            Obeyed::ByThread(before, after) if !is_installed => {
                let word = registration::refused();
                _ = word.compare_exchange(after, before, Ordering::Relaxed, Ordering::Relaxed);
            }
            Obeyed::InPlace(number) => {
                let Some(place) = self.pending.get(number) else { return };
                if is_installed {
                    self.add(place.load(Ordering::Relaxed));
                }
                // Release pairs with the Acquire in `bits`.
                place.store(0, Ordering::Release);
            }
            Obeyed::ForGood | Obeyed::ByThread(..) => {}
        }
    }

    /// From now on no thread may ask what this one may not.
    pub fn share_own(&self) {
        let own = registration::refused();
        self.add(own.load(Ordering::Relaxed) & !FILTERS);
        own.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_filter_goes_without_those_noted_before_and_after_it() {
        let refusals = Refusals::new();
        let [first, second, third] = [1, 2, 4].map(|bits| refusals.note(bits));
        assert_eq!(refusals.bits(), 7);
        refusals.settle(first, false);
        assert_eq!(refusals.bits(), 6);
        refusals.settle(third, true);
        refusals.settle(second, false);
        assert_eq!(refusals.bits(), 4);
    }

    #[test]
    fn two_threads_whose_filters_are_refused_in_either_order_leave_nothing() {
        let refusals = Refusals::new();
        for is_first_first in [true, false] {
            let [first, second] = [1, 2].map(|bits| refusals.note(bits));
            let order = if is_first_first { [first, second] } else { [second, first] };
            for obeyed in order {
                refusals.settle(obeyed, false);
            }
            assert_eq!(refusals.bits(), 0);
        }
    }

    #[test]
    fn a_filter_without_a_place_counts_as_installed() {
        let refusals = Refusals::new();
        let placed = [(); PLACES].map(|()| refusals.note(1));
        let more = refusals.note(2);
        for obeyed in placed.into_iter().chain([more]) {
            refusals.settle(obeyed, false);
        }
        assert_eq!(refusals.bits(), 2);
        let again = refusals.note(8);
        refusals.settle(again, false);
        assert_eq!(refusals.bits(), 2, "the places are free again");
    }

    #[test]
    fn what_is_added_while_a_filter_waits_for_its_answer_stays() {
        let refusals = Refusals::new();
        let obeyed = refusals.note(1);
        refusals.add(2);
        refusals.settle(obeyed, false);
        assert_eq!(refusals.bits(), 2);
    }

    #[test]
    fn a_handler_that_notes_a_filter_of_its_thread_keeps_the_one_that_it_interrupted() {
        let refusals = Refusals::new();
        let interrupted = refusals.note_by_thread(1);
        let handlers = refusals.note_by_thread(1);
        refusals.settle(handlers, true);
        refusals.settle(interrupted, false);
        assert_eq!(refusals.bits() & 1, 1, "the handler's is the same and holds");
        registration::refused().store(0, Ordering::Relaxed);
    }
}
