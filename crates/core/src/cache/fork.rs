//! The locks of this layer in a child process.

use super::{Below, Cache};
use crate::base::sync::Ordering;
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::Os;

impl<O: Os> Cache<O> {
    /// Takes over the locks of slabs from threads that are not in this process. A slab under a lock is whole at any
    /// instant. One with this thread's own mark is left alone, wherever the thread stands: it is taken outside slow
    /// paths as well, and a handler that forked there goes back to it. Should a new thread have the mark of one that is
    /// gone, that slab rests: nobody waits for one.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair_slabs(&self) {
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            // SAFETY: by the caller's promise.
            unsafe { self.lock_of(slot).take_over(false) };
        }
    }

    /// Takes the freezer over, and puts slabs in use again that its holder was emptying.
    ///
    /// # Safety
    /// The caller called `repair_slabs`, whose promise it keeps here.
    pub unsafe fn repair_freezer(&self, below: Below<'_, O>, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            if self.freezer.seize(outermost) {
                self.thaw(below);
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
