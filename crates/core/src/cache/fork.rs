//! The locks of this layer in a child process.

use super::{Cache, Middle};
use crate::base::sync::Ordering;
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::Os;

impl<O: Os> Cache<O> {
    /// Takes over the locks of slabs from threads that are not in this process. A slab under a lock is whole at any
    /// instant. Their locks are taken outside slow paths as well: the thread that forked may have one, in work that a
    /// signal handler interrupted and goes back to. A new thread has none (`is_new`), but may have the mark of one that
    /// is gone.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair_slabs(&self, is_new: bool) {
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            // SAFETY: by the caller's promise.
            unsafe { self.lock_of(slot).take_over(is_new) };
        }
    }

    /// Takes the freezer over, and puts slabs in use again that its holder was emptying.
    ///
    /// # Safety
    /// The caller called `repair_slabs`, whose promise it keeps here.
    pub unsafe fn repair_freezer(&self, store: &impl Middle<O>, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            if self.freezer.seize(outermost) {
                self.thaw(store);
                self.freezer.release();
            }
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        take(&self.freezer);
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            take(self.lock_of(slot));
        }
    }
}
