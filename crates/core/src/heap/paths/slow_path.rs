//! The frame that every slow path stands in, and the work when one is left.

use crate::base::sync::Ordering;
use crate::heap::sampling::FORGOTTEN;
use crate::heap::{Heap, READY};
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Does the work of a slow path, and what is due after it; none where this thread is in one already, or
    /// the process aborts.
    #[inline]
    pub(crate) fn in_slow_path<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let outcome = self.inside(|| {
            let outcome = work();
            self.after_slow_path();
            outcome
        });
        self.abort_if_told();
        self.see_to_words_if_due();
        self.call_back_if_due();
        self.obey_if_ordered();
        self.look_at_probes();
        outcome
    }

    /// Does what is due when the work of a slow path is done, with no lock held.
    fn after_slow_path(&self) {
        if self.state.load(Ordering::Relaxed) == READY {
            self.obeyed(self.upkeep.after_slow_path(&self.below_upkeep()));
        }
    }

    /// For a request that is served by a short way: does what is due, where the fast path leaves requests to slow paths.
    #[inline]
    pub(crate) fn look_around(&self) {
        if !self.cache.front.is_direct() && !self.is_aborting() {
            self.look();
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&self) {
        let is_ready = self.state.load(Ordering::Relaxed) == READY;
        if is_ready && (self.orders.is_due() || self.upkeep.look(&self.below_upkeep())) {
            self.in_slow_path(|| ());
        }
        self.cache.settle_direct();
    }

    /// Does what may take locks: a signal handler that interrupts it and allocates is served without them.
    /// None where this thread is inside already, or the process aborts.
    #[inline]
    pub(crate) fn inside<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let outcome = self.noted(work)?;
        // From here on this thread is outside, and what its handlers had to leave is done.
        if self.deferred.has_any() {
            self.free_deferred();
        }
        while self.late_options.load(Ordering::Relaxed) != 0 {
            self.apply_late_options();
        }
        Some(outcome)
    }

    /// Does work while this thread is noted as inside.
    #[inline]
    fn noted<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.is_aborting() {
            return None;
        }
        let entry = self.enter_slow_path()?;
        let outcome = work();
        drop(entry);
        Some(outcome)
    }

    /// Frees what signal handlers had to leave.
    #[cold]
    fn free_deferred(&self) {
        let free = |block| {
            // A block of a policy begins at a multiple; `put_back` looks at all else that a program frees.
            let is_forgotten = self.pages.keeps_marks() && block & FORGOTTEN != 0;
            let put_back = || match is_forgotten {
                true => {
                    self.profile.remove(block & !FORGOTTEN);
                    Ok(())
                }
                false => self.put_back(block),
            };
            match self.noted(put_back) {
                Some(outcome) => self.obeyed(outcome),
                None => self.free_in_emergency(block),
            }
        };
        // A handler that comes meanwhile may leave more.
        while self.deferred.take_all(free, |note| self.emergency.free(note)) {}
    }

    /// Lets options take effect that a signal handler set inside a slow path.
    #[cold]
    fn apply_late_options(&self) {
        let late = self.late_options.swap(0, Ordering::Acquire);
        let ids = OptionId::ALL.into_iter().filter(|id| late >> *id as u32 & 1 == 1);
        self.noted(|| ids.for_each(|id| self.apply_option(id)));
    }

    /// Does what was asked from outside, if anything was. Called outside slow paths.
    #[inline]
    pub(crate) fn obey_if_ordered(&self) {
        if self.orders.is_due() {
            self.inside(|| self.obey_order());
        }
    }

    /// Calls the program's function for memory pressure, if that is due.
    #[inline]
    pub(crate) fn call_back_if_due(&self) {
        self.upkeep.callback.call_if_due(|| {
            let in_memory = self.inside(|| self.pages.footprint()).unwrap_or(0);
            (in_memory, self.pages.limits.soft().unwrap_or(0))
        });
    }
}
