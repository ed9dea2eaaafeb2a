//! The frame of the heap's slow paths: the engine's, and behind it what observers and orders from outside want.

use super::Heap;
use crate::cache::Counted;
use crate::engine::Inside;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Does the work of a slow path, and what is due after it; none where this thread is in one already, or the process
    /// aborts.
    #[inline]
    pub(crate) fn in_slow_path<R>(&self, work: impl FnOnce(Inside<'_>) -> R) -> Option<R> {
        let outcome = self.engine.slow_path(self, work);
        self.see_to_words_if_due();
        // A handler that interrupted a slow path leaves that to the slow path after it: this thread may hold locks.
        if outcome.is_some() {
            self.call_back_if_due();
        }
        self.obey_if_ordered();
        self.look_at_probes();
        outcome
    }

    /// For a request that is served by a short way: does what is due, where the fast path leaves requests to slow paths.
    #[inline]
    pub(crate) fn look_around(&self) {
        if !self.cache.front.is_direct() && !self.is_aborting() {
            self.look();
        }
    }

    /// The same for a request that was counted: looks around at the end of an interval, and where nobody inside wants looks, since
    /// somebody outside of this process rang.
    #[inline]
    pub(crate) fn look_around_if_due(&self, counted: Counted) {
        if counted != Counted::Within || !self.cache.sampling.counts_each() {
            self.look_around();
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&self) {
        if self.is_ready() && (self.mailbox.is_due() || self.upkeep.look(&self.floors)) {
            self.in_slow_path(|_| ());
        }
        self.cache.settle_direct();
    }

    /// Does what was asked from outside, if anything was. Called outside slow paths.
    #[inline]
    pub(crate) fn obey_if_ordered(&self) {
        if self.mailbox.is_due() {
            self.inside(|_| self.obey_order());
        }
    }

    /// Calls the program's function for memory pressure, if that is due. A fiber may go on in another thread there: no caller
    /// keeps what belongs to this one (docs/design/restartable-sequences.md, Fibers).
    #[inline]
    pub(crate) fn call_back_if_due(&self) {
        self.upkeep.callback.call_if_due(|| {
            let in_memory = self.inside(|_| self.pages.footprint()).unwrap_or(0);
            (in_memory, self.pages.limits.soft().unwrap_or(0))
        });
    }
}
