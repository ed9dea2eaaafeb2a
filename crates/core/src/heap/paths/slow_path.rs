//! What every slow path stands in, and the slow paths that move no single block.

use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Does the work of a slow path, and what is due after it; none where this thread is in one already, or
    /// the process was stopped.
    #[inline]
    pub(crate) fn in_slow_path<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let outcome = self.inside(|| {
            let outcome = work();
            self.after_slow_path();
            outcome
        });
        self.stop_if_told();
        self.call_back_if_due();
        outcome
    }

    /// Does what may take locks: a signal handler that interrupts it and allocates is served without them.
    /// None where this thread is inside already, or the process was stopped.
    #[inline]
    pub(crate) fn inside<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.is_stopped() {
            return None;
        }
        let entry = self.enter_slow_path()?;
        let outcome = work();
        // From here on this thread is outside: what follows may allocate and free as anybody may.
        drop(entry);
        self.free_deferred();
        self.apply_late_options();
        Some(outcome)
    }

    /// Brings everything that is cached back to its spans.
    pub fn reclaim(&self) {
        self.obeyed(self.try_reclaim());
    }

    /// The same for one who has a lock to leave before the process ends.
    #[inline(never)]
    pub(crate) fn try_reclaim(&self) -> Result<(), Misuse> {
        if !self.cache.drain(self.below())? {
            self.fences_refused.fetch_add(1, Ordering::Relaxed);
        }
        for class in SizeClass::all() {
            self.central.drain(&self.pages, class, usize::MAX)?;
            self.central.forget_array(&self.os, class, 0);
        }
        self.large.audit(&self.pages)
    }

    /// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes
    /// given.
    pub fn release(&self, keep: usize) -> usize {
        // Spans' idle pages have no keeper: only whole free units count against `keep`.
        self.in_slow_path(|| {
            if !self.is_started() {
                return 0;
            }
            self.reclaim();
            self.tidy_spans(0) + self.pages.give_back(&self.os, keep, 0)
        })
        .unwrap_or(0)
    }

    /// Brings every cached block back to its span, which finds blocks that were freed twice.
    pub fn audit(&self) {
        self.in_slow_path(|| {
            if self.is_started() {
                self.reclaim();
            }
        });
    }

    /// For the end of a process: caches nothing any more, and brings back what is cached. A block that destructors
    /// after ours free goes to its span at once, where a second free is seen at the call.
    pub fn audit_for_good(&self) {
        if self.is_started() {
            self.bound_is_final.store(1, Ordering::Relaxed);
            self.central.budget.set_limit(0);
            self.cache.set_share(0, 1);
        }
        self.audit();
    }
}
