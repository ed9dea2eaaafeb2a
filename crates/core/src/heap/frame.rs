//! The frame around all work that may take locks.

use super::Heap;
use crate::engine::Inside;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Does what may take locks: a signal handler that interrupts it and allocates is served without them. None where this
    /// thread is inside already, or the process aborts.
    #[inline]
    pub(crate) fn inside<R>(&self, work: impl FnOnce(Inside<'_>) -> R) -> Option<R> {
        self.engine.frame(self, work)
    }
}
