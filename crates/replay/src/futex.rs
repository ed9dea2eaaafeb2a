//! Waiting on a word of memory. Words that two processes map are waited on by what lies behind the address.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits while the word holds `value`, or so long; may come back early.
pub fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let most = libc::timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: the word and the time live until the call returns.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const most) };
}

pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the address is used as a name only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
