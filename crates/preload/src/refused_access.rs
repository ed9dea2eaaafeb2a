//! Says what happened when the program touched memory that it may not touch.
//!
//! Owns the handler of SIGSEGV while the program sets none of its own; promises that an access to memory that is not the
//! heap's ends as if the handler were not there. Installed when the library is loaded, if the heap has guard pages.

use super::HEAP;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

type Action = libc::sigaction;

/// The action before ours.
static BEFORE: AtomicPtr<Action> = AtomicPtr::new(ptr::null_mut());
static mut ROOM: MaybeUninit<Action> = MaybeUninit::uninit();

pub fn install() {
    // SAFETY: runs once, before the program's first instruction; the handler is async-signal-safe.
    unsafe {
        let mut ours: Action = core::mem::zeroed();
        ours.sa_sigaction = handle as *const () as usize;
        // On the program's alternate stack, if it has one: the fault may be the end of the ordinary one.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut ours.sa_mask);
        let before = (&raw mut ROOM).cast::<Action>();
        if libc::sigaction(libc::SIGSEGV, &ours, before) == 0 {
            BEFORE.store(before, Ordering::Release);
        }
    }
}

extern "C" fn handle(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes the information of this fault.
    let (address, is_access) = unsafe { ((*info).si_addr().addr(), (*info).si_code > 0) };
    if let Some(misuse) = HEAP.explain(address).filter(|_| is_access) {
        HEAP.stop(misuse);
    }
    // As it was before us: the instruction runs again and faults again.
    let before = BEFORE.load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: `install` filled it.
        unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
    }
    if !is_access {
        // Somebody sent the signal: nothing would fault again.
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
}
