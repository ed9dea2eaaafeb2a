//! Callers that must not touch the heap: a signal handler inside a slow path, and all in a process that aborts.

use super::Engine;
use crate::base::sync::Ordering;
use crate::class::MIN_ALIGN;
use crate::os::Os;

impl<O: Os> Engine<O> {
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_in_emergency(&self, bytes: usize, align: usize) -> usize {
        if self.is_aborting() && self.aborting_thread.load(Ordering::Relaxed) != O::thread_id() {
            self.os.end_if_left_behind();
            match self.sources.emergency.wait_of_others(bytes) {
                Some(nanoseconds) => self.os.sleep(nanoseconds),
                None => self.park(),
            }
        }
        self.sources.emergency.allocate(&self.os, bytes, align)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn free_in_emergency(&self, address: usize) {
        if self.is_aborting() {
            return;
        }
        match self.sources.emergency.bytes_of(address) {
            Some(_) => self.sources.emergency.take_back(address),
            None => self.defer(address),
        }
    }

    /// Leaves a block until the slow path that this handler interrupted has ended.
    pub(crate) fn defer(&self, address: usize) {
        self.deferred.keep(address, |bytes| self.sources.emergency.allocate(&self.os, bytes, MIN_ALIGN));
    }
}
