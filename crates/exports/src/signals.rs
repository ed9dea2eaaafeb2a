//! The shared library's `sigaction` and `signal`, put before libc's, and the older functions that do the same.
//!
//! For SIGSEGV they exchange the program's action in `actions` and leave ours with the kernel, so a program never sees our
//! handler, and one that installs its own later does not end the reports. All is async-signal-safe. In the static library a
//! handler that the program installs simply wins.

use super::actions::{__sigaction, current, exchange, install, owner_is_here};
use super::next;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if signal != libc::SIGSEGV || !owner_is_here() {
        // SAFETY: by the caller's promise.
        return unsafe { __sigaction(signal, new, old) };
    }
    // SAFETY: by the caller's promise both are valid where they are not null. `new` and `old` may be the
    // same.
    unsafe {
        let before = if new.is_null() {
            current()
        } else {
            let new = *new;
            let before = exchange(&new);
            install(&new);
            before
        };
        if !old.is_null() {
            *old = before;
        }
    }
    0
}

fn exchange_handler(handler: libc::sighandler_t, flags: c_int) -> libc::sighandler_t {
    // SAFETY: actions of ours.
    unsafe {
        let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let mut old = new;
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        match sigaction(libc::SIGSEGV, &new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if number == libc::SIGSEGV && owner_is_here() {
        return exchange_handler(handler, libc::SA_RESTART);
    }
    // SAFETY: by the caller's promise.
    unsafe { next::signal().map_or(libc::SIG_ERR, |signal| signal(number, handler)) }
}

/// The meaning of `signal` in programs that ask for System V's.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if number == libc::SIGSEGV && owner_is_here() {
        return exchange_handler(handler, libc::SA_RESETHAND | libc::SA_NODEFER);
    }
    // SAFETY: by the caller's promise.
    unsafe { next::sysv_signal().map_or(libc::SIG_ERR, |signal| signal(number, handler)) }
}

/// Another name of `__sysv_signal`.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: by the caller's promise.
    unsafe { __sysv_signal(number, handler) }
}

/// Another name of `signal`.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ssignal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: by the caller's promise.
    unsafe { signal(number, handler) }
}

/// BSD's name of `signal`.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: by the caller's promise.
    unsafe { signal(number, handler) }
}

/// System V's way to an action, which lets the signal through or holds it too.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(number: c_int, disposition: libc::sighandler_t) -> libc::sighandler_t {
    const SIG_HOLD: libc::sighandler_t = 2;
    let hold = disposition == SIG_HOLD;
    // SAFETY: sets and actions of ours.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        let mut blocked = set;
        let mut old = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let new = libc::sigaction { sa_sigaction: disposition, ..old };
        if libc::sigaddset(&mut set, number) != 0
            || sigaction(number, if hold { ptr::null() } else { &new }, &mut old) != 0
        {
            return libc::SIG_ERR;
        }
        let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        libc::sigprocmask(how, &set, &mut blocked);
        if libc::sigismember(&blocked, number) == 1 { SIG_HOLD } else { old.sa_sigaction }
    }
}

/// System V's way to ignore a signal.
///
/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigignore(number: c_int) -> c_int {
    // SAFETY: an action of ours.
    unsafe {
        let zeroed = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let ignore = libc::sigaction { sa_sigaction: libc::SIG_IGN, ..zeroed };
        sigaction(number, &ignore, ptr::null_mut())
    }
}
