//! The locks of this layer across `fork`, and in a child that came about without it.

use super::{Below, Cache};
use crate::base::sync::Ordering;
use crate::os::Os;

impl<O: Os> Cache<O> {
    /// Takes the lock across `fork`, so that no slab is frozen in the child. The locks of slabs are not
    /// taken: a signal handler may have interrupted its own thread there, and a slab is whole at any instant.
    pub fn hold(&self) {
        self.freezer.hold();
    }

    /// # Safety
    /// After `hold` by this thread, in the parent.
    pub unsafe fn release(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.freezer.release() };
    }

    /// # Safety
    /// After `hold`, in the forked child.
    pub unsafe fn reset(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.free_locked_slabs();
            self.freezer.reset();
        }
    }

    /// Takes over the locks of threads that are not in this process, and puts right what those were changing.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, below: Below<'_, O>) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            self.free_locked_slabs();
            if self.freezer.seize() {
                self.thaw(below);
                self.freezer.release();
            }
        }
    }

    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    unsafe fn free_locked_slabs(&self) {
        for slot in self.cpus.load(Ordering::Relaxed)..self.slots.load(Ordering::Relaxed) {
            // SAFETY: by the caller's promise; released by the thread that seized it.
            unsafe {
                if self.lock_of(slot).seize() {
                    self.lock_of(slot).release();
                }
            }
        }
    }
}
