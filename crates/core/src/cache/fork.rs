//! The locks of this layer in a child process.

use super::{Below, Cache};
use crate::base::sync::Ordering;
use crate::os::Os;

impl<O: Os> Cache<O> {
    /// Takes over the locks of threads that are not in this process, and puts right what those were changing.
    /// A slab under a lock is whole at any instant.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, below: Below<'_, O>, outermost: bool) {
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            // SAFETY: by the caller's promise; released by the thread that seized it.
            unsafe {
                if self.lock_of(slot).seize(outermost) {
                    self.lock_of(slot).release();
                }
            }
        }
        // SAFETY: as above.
        unsafe {
            if self.freezer.seize(outermost) {
                self.thaw(below);
                self.freezer.release();
            }
        }
    }

    /// Takes the lock, as a thread that stays in the parent may have it.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn hold(&self) {
        self.freezer.hold();
    }

    /// Ends `hold`.
    ///
    /// # Safety
    /// After `hold` by this thread.
    #[cfg(any(test, feature = "fake-os"))]
    pub unsafe fn release(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.freezer.release() };
    }
}
