//! Numbers that nobody can guess, and the clock.

use crate::base::chance::next_random;

pub(super) fn random() -> u64 {
    let mut word = 0u64;
    let (to, bytes) = (&raw mut word, size_of::<u64>());
    // SAFETY: the call writes at most eight bytes to `word`.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, to, bytes, libc::GRND_NONBLOCK) };
    if got == bytes as libc::c_long {
        return word;
    }
    // An old kernel, a filter, or a machine that has just started. Each word hides the other.
    random_words().into_iter().fold(now(), |mixed, word| next_random(&mut (mixed ^ word)))
}

/// Sixteen random bytes come with every process. They are glibc's secrets, its stack canary and its pointer guard: a
/// number made of them may tell neither.
pub(super) fn random_words() -> [u64; 2] {
    // SAFETY: AT_RANDOM is 0 or the address of 16 readable bytes that live as long as the process.
    unsafe {
        let bytes = libc::getauxval(libc::AT_RANDOM) as *const [u64; 2];
        if bytes.is_null() { [0; 2] } else { bytes.read_unaligned() }
    }
}

pub(super) fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

pub(super) fn roughly_now() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure that it is given.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
