//! The types and values that C's functions speak in: pointers, names, errno, threads.

#[cfg(any(exported, prefixed))]
use core::ffi::c_char;
use core::ffi::{c_int, c_void};
#[cfg(any(exported, prefixed))]
use core::ptr;

pub type Pointer = *mut c_void;
/// A C string.
#[cfg(any(exported, prefixed))]
pub type Name = *const c_char;
/// The function that a new thread runs, and pthread_create.
pub type Start = extern "C" fn(Pointer) -> Pointer;
pub type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, Pointer) -> c_int;

#[cfg(any(exported, prefixed))]
#[inline(always)]
pub fn pointer(address: usize) -> Pointer {
    ptr::with_exposed_provenance_mut(address)
}

#[cfg(any(exported, prefixed))]
#[inline(always)]
pub fn address(pointer: Pointer) -> usize {
    pointer.expose_provenance()
}

pub fn set_errno(error: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error };
}

pub fn errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// The result of what asks the system for things; errno stays as it was.
pub fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}
