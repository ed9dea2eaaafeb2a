//! This process: waiting, environment, name, end.

use super::files;
use crate::base::chance::next_random;
use crate::base::sync::AtomicU32;
use core::ffi::{CStr, c_char};
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

pub(super) fn random() -> u64 {
    let mut word = 0u64;
    let (to, bytes) = (&raw mut word, size_of::<u64>());
    // SAFETY: the call writes at most eight bytes to `word`.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, to, bytes, libc::GRND_NONBLOCK) };
    if got == bytes as libc::c_long {
        return word;
    }
    // An old kernel, a filter, or a machine that has just started. Each word hides the other.
    super::memory::random_words().into_iter().fold(now(), |mixed, word| next_random(&mut (mixed ^ word)))
}

pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
pub(super) fn futex_wake(word: &AtomicU32, count: u32) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count)
    };
}

/// Every thread has an errno of its own, and its address costs no system call.
pub(super) fn thread_id() -> usize {
    // SAFETY: returns the address of this thread's errno.
    unsafe { libc::__errno_location() }.addr()
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

pub(super) fn process_number() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_getpid) as u64 }
}

pub(super) fn is_privileged() -> bool {
    // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

pub(super) fn each_variable(take: &mut dyn FnMut(&[u8], &[u8])) {
    // SAFETY: `environ` is null before libc is set up and then a null-terminated array of C strings; nobody
    // changes it while the process starts, which is when this is called.
    unsafe {
        if environ.is_null() {
            return each_variable_of_procfs(take);
        }
        let mut entry = environ;
        while !(*entry).is_null() {
            take_entry(CStr::from_ptr(*entry).to_bytes(), take);
            entry = entry.add(1);
        }
    }
}

/// The dynamic linker may allocate before libc knows the environment. Apart, for its two pages of stack.
#[cold]
#[inline(never)]
fn each_variable_of_procfs(take: &mut dyn FnMut(&[u8], &[u8])) {
    let mut content = [0u8; 8192];
    if let Ok(length) = files::read(c"/proc/self/environ", &mut content) {
        content
            .get(..length)
            .unwrap_or(&[])
            .split(|byte| *byte == 0)
            .for_each(|entry| take_entry(entry, take));
    }
}

fn take_entry(entry: &[u8], take: &mut dyn FnMut(&[u8], &[u8])) {
    let mut halves = entry.splitn(2, |byte| *byte == b'=');
    if let (Some(name), Some(value)) = (halves.next(), halves.next()) {
        take(name, value);
    }
}

pub(super) fn program_name(buffer: &mut [u8]) -> usize {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len()).min(buffer.len());
    for (to, from) in buffer.iter_mut().zip(name.iter().take(length)) {
        *to = *from;
    }
    length
}
pub(super) fn abort() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
