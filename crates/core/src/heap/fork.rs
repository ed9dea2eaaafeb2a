//! fork.
//!
//! A thread that forks holds every lock of the heap, taken in rank order - starting, pressure, watch, cache, central,
//! pages - so that the child gets a heap that nobody was changing. Restartable sequences need no lock: in the
//! child an unfinished one has not happened. Blocks that other threads held in their slow paths stay live in
//! the child, as all their blocks do. `orphan` is for children that come about otherwise.

use super::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// False where nothing was taken, because a signal handler forks inside a slow path of its own thread:
    /// that slow path holds some of the locks itself, and goes on in the child as in the parent.
    pub fn before_fork(&self) -> bool {
        // Noted until one of the handlers below: signals are delivered before those run, and a handler that
        // allocates must not wait for the locks that its own thread holds.
        let Some(entry) = self.enter_slow_path() else { return false };
        core::mem::forget(entry);
        self.starting.hold();
        self.pressure.relieving.hold();
        self.profile.hold();
        self.guards.hold();
        self.cache.hold();
        self.central.hold();
        self.pages.hold();
        true
    }

    /// # Safety
    /// In the parent, by the thread that called `before_fork`.
    pub unsafe fn after_fork_in_parent(&self) {
        // SAFETY: by the caller's promise; in the reverse order.
        unsafe {
            self.pages.release();
            self.central.release();
            self.cache.release();
            self.guards.release();
            self.profile.release();
            self.pressure.relieving.release();
            self.starting.release();
        }
        self.slow_paths.leave::<O>();
    }

    /// # Safety
    /// In the child, whose only thread is the one that called `before_fork`.
    pub unsafe fn after_fork_in_child(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.pages.reset();
            self.central.reset();
            self.cache.reset();
            self.guards.reset();
            self.profile.reset();
            self.pressure.relieving.reset();
            self.starting.reset();
        }
        // The janitor's thread stayed in the parent.
        self.forget_janitor();
        self.slow_paths.forget_all();
        self.process_is_known();
    }

    /// For a fork whose `before_fork` took nothing: what other threads were changing is put right, and what
    /// this thread holds in the work that its signal handler interrupted goes on being held.
    ///
    /// # Safety
    /// In the child, whose only thread is the one that called `before_fork`.
    pub unsafe fn after_unlocked_fork_in_child(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.repair() };
    }
}
