//! The new mode: whether malloc without memory runs the new-handler and tries again, as operator new does.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

static MODE: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    /// new_handler.cc. False where there is no handler, or it threw.
    fn vcm_run_new_handler() -> bool;
}

/// Sets the mode and returns the one before.
pub extern "C" fn set(mode: c_int) -> c_int {
    MODE.swap(mode, Ordering::Relaxed)
}

pub extern "C" fn get() -> c_int {
    MODE.load(Ordering::Relaxed)
}

/// Whether an allocation that failed should be tried again.
pub fn tries_again() -> bool {
    // SAFETY: it catches what the handler throws.
    MODE.load(Ordering::Relaxed) != 0 && unsafe { vcm_run_new_handler() }
}
