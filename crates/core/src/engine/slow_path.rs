//! The frame around all slow work: a thread goes in once, and what signal handlers had to leave is done when it comes out.

use super::{Above, Engine, Inside};
use crate::base::sync::Ordering;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Engine<O> {
    /// Does the work of a slow path, and what is due after it with no lock held; none where this thread is in one already,
    /// or the process aborts.
    #[inline]
    pub(crate) fn slow_path<R>(&self, above: &impl Above, work: impl FnOnce(Inside<'_>) -> R) -> Option<R> {
        let outcome = self.frame(above, |inside| {
            let outcome = work(inside);
            if self.is_ready() {
                self.obeyed(self.upkeep.after_slow_path(&self.floors));
            }
            outcome
        });
        self.abort_if_told();
        outcome
    }

    /// Does what may take locks: a signal handler that interrupts it and allocates is served without them. None where this
    /// thread is inside already, or the process aborts.
    #[inline]
    pub(crate) fn frame<R>(&self, above: &impl Above, work: impl FnOnce(Inside<'_>) -> R) -> Option<R> {
        let outcome = self.noted(above, work)?;
        // From here on this thread is outside, and what its handlers had to leave is done.
        if self.deferred.has_any() {
            self.free_deferred(above);
        }
        while self.late_options.load(Ordering::Relaxed) != 0 {
            self.apply_late_options(above);
        }
        Some(outcome)
    }

    /// Does work while this thread is noted as inside.
    #[inline]
    fn noted<R>(&self, above: &impl Above, work: impl FnOnce(Inside<'_>) -> R) -> Option<R> {
        if self.is_aborting() {
            return None;
        }
        let entry = self.enter_slow_path(above)?;
        let outcome = work(entry.inside());
        drop(entry);
        Some(outcome)
    }

    /// Frees what signal handlers had to leave.
    #[cold]
    fn free_deferred(&self, above: &impl Above) {
        let free = |block| match self.noted(above, |inside| above.take_back_deferred(inside, block)) {
            Some(outcome) => self.obeyed(outcome),
            None => self.free_in_emergency(block),
        };
        // A handler that comes meanwhile may leave more.
        while self.deferred.take_all(free, |note| self.sources.emergency.take_back(note)) {}
    }

    /// Lets options take effect that a signal handler set inside a slow path.
    #[cold]
    fn apply_late_options(&self, above: &impl Above) {
        let late = self.late_options.swap(0, Ordering::Acquire);
        let ids = OptionId::ALL.into_iter().filter(|id| late >> *id as u32 & 1 == 1);
        self.noted(above, |_| ids.for_each(|id| above.apply(id)));
    }
}
