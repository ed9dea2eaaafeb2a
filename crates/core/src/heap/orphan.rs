//! Children that were made without fork's handlers: by `_Fork`, by a raw `clone`, or by `fork` in a signal
//! handler that interrupted a slow path.
//!
//! Such a child has the locks as they were, held by threads that stayed in the parent. It is recognised by a
//! word that the kernel zeroes in every child; its first slow path then takes those locks over and puts right
//! what they guard. A lock that this very thread holds, in the work that a signal handler interrupted, is
//! left alone: that work goes on.

use super::Heap;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, pause};
use crate::os::Os;

const NEW: u32 = 0;
const KNOWN: u32 = 1;
/// One thread puts the heap right; the others wait.
const REPAIRED: u32 = 2;

/// Whether this process is the one that the heap was last used in.
pub struct Process {
    /// The address of the word that the kernel zeroes, 0 where there is none.
    word: AtomicUsize,
}

impl Process {
    pub const fn new() -> Self {
        Process { word: AtomicUsize::new(0) }
    }

    pub fn start<O: Os>(&self, os: &O) {
        if self.word.load(Ordering::Relaxed) == 0
            && let Some(word) = os.process_word()
        {
            self.word.store(word, Ordering::Relaxed);
            self.set(KNOWN);
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn address(&self) -> usize {
        self.word.load(Ordering::Relaxed)
    }

    #[inline]
    fn state(&self) -> Option<&AtomicU32> {
        match self.word.load(Ordering::Relaxed) {
            0 => None,
            // SAFETY: the word is ours and stays mapped.
            word => Some(unsafe { &*core::ptr::with_exposed_provenance(word) }),
        }
    }

    #[inline]
    fn is_known(&self) -> bool {
        self.state().is_none_or(|state| state.load(Ordering::Acquire) == KNOWN)
    }

    /// Whether nobody has begun to put the heap right.
    fn is_new(&self) -> bool {
        self.state().is_some_and(|state| state.load(Ordering::Relaxed) == NEW)
    }

    fn set(&self, value: u32) {
        if let Some(state) = self.state() {
            // Release pairs with the Acquire in `is_known`: who finds the process known finds the heap right.
            state.store(value, Ordering::Release);
        }
    }

    /// True for the one thread that is to put the heap right.
    fn claim(&self) -> bool {
        self.state().is_some_and(|state| {
            state.compare_exchange(NEW, REPAIRED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }
}

impl<O: Os> Heap<O> {
    /// Puts the heap right if this is a new process. `outermost`: this thread is not in the middle of a slow
    /// path.
    #[inline]
    pub(super) fn know_process(&self, outermost: bool) {
        if !self.process.is_known() {
            self.meet_process(outermost);
        }
    }

    #[cold]
    #[inline(never)]
    fn meet_process(&self, outermost: bool) {
        if self.process.claim() {
            // SAFETY: the process is new, and its other threads, if it has any yet, wait below.
            unsafe { self.repair() };
        }
        // A handler that interrupted the repair must not wait for it.
        while outermost && !self.process.is_known() {
            pause();
        }
    }

    /// # Safety
    /// All threads that were in slow paths, but this one, stayed in the parent process.
    pub(super) unsafe fn repair(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            for guards_nothing in [&self.starting, &self.pressure.relieving] {
                if guards_nothing.seize() {
                    guards_nothing.release();
                }
            }
            self.profile.repair();
            self.guards.repair();
            self.pages.repair();
            self.central.repair(&self.pages);
            self.cache.repair(self.below());
        }
        self.forget_janitor();
        self.slow_paths.forget_others::<O>();
        self.process.set(KNOWN);
    }

    /// In a new process those that stand in slow paths are gone. For a thread that finds no place among them:
    /// it must stand there itself before it puts the rest right, or its handlers would wait for it.
    pub(super) fn forget_absent(&self) {
        if self.process.is_new() {
            self.slow_paths.forget_others::<O>();
        }
    }

    /// For a child in which no thread was in a slow path: its locks are right.
    pub(super) fn process_is_known(&self) {
        self.process.set(KNOWN);
    }

    /// Looks whether this is a new process: for those who are about to make a thread in it.
    pub fn look_at_process(&self) {
        self.inside(|| ());
    }
}

#[cfg(test)]
mod tests;
