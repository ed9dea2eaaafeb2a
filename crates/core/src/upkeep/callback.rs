//! The program's function for memory pressure.

use crate::base::sync::{AtomicBool, Ordering};
use core::sync::atomic::AtomicPtr;

/// Is called with the heap's bytes in memory and the limit.
pub type Function = extern "C" fn(usize, usize);

/// When it is to be called, and whether somebody is in it.
pub struct Callback {
    function: AtomicPtr<()>,
    /// The soft limit was passed, and the program has not been told yet.
    is_due: AtomicBool,
    /// A thread is in the program's function.
    is_running: AtomicBool,
}

impl Callback {
    pub const fn new() -> Self {
        Callback {
            function: AtomicPtr::new(core::ptr::null_mut()),
            is_due: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
        }
    }

    pub fn set(&self, function: Option<Function>) {
        let address = function.map_or(core::ptr::null_mut(), |function| function as *mut ());
        self.function.store(address, Ordering::Release);
    }

    pub(super) fn make_due(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// Calls the function, with what `figures` says, if the limit was passed and there is one. Never from inside a slow
    /// path: the function is free to use the heap. One call at a time: a function that allocates would call itself for
    /// ever. A call that becomes due meanwhile waits for the slow path after it.
    #[inline]
    pub fn call_if_due(&self, figures: impl FnOnce() -> (usize, usize)) {
        if !self.is_due.load(Ordering::Relaxed) || self.is_running.swap(true, Ordering::Acquire) {
            return;
        }
        if self.is_due.swap(false, Ordering::Relaxed) {
            self.call(figures);
        }
        self.is_running.store(false, Ordering::Release);
    }

    #[cold]
    fn call(&self, figures: impl FnOnce() -> (usize, usize)) {
        let function = self.function.load(Ordering::Acquire);
        if !function.is_null() {
            // SAFETY: `set` is the only place that stores here, and stores such functions.
            let function: Function = unsafe { core::mem::transmute(function) };
            let (in_memory, limit) = figures();
            function(in_memory, limit);
        }
    }

    /// In a forked child: no other thread is in the program's function.
    pub(super) fn forget_thread(&self) {
        self.is_running.store(false, Ordering::Relaxed);
    }
}
