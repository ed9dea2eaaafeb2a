//! This thread: its errno, its number, and how it waits.

use crate::base::sync::AtomicU32;
use core::ptr;

pub(super) fn futex_wait(word: &AtomicU32, expected: u32) {
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call; a null time-out means to wait without end.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, expected, ptr::null::<u8>()) };
}

pub(super) fn futex_wait_for(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, expected, &time) };
}

pub(super) fn futex_wake(word: &AtomicU32, count: u32) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count)
    };
}

pub(super) fn error_number() -> i32 {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

pub(super) fn set_error_number(error: i32) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error };
}

pub(super) fn thread_number() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

/// A number in this thread's block of the C library, whose address is that of the thread there.
#[inline]
pub(super) fn number_at(offset: usize) -> u32 {
    // SAFETY: the offset was tried on another thread's block, and is the same in all. The kernel clears the number when the
    // thread has ended.
    unsafe {
        let block = libc::pthread_self() as usize;
        core::ptr::with_exposed_provenance::<u32>(block + offset).read_volatile()
    }
}
