//! Signals that would end us wait until somebody asks for them, so that nothing stays switched on behind us.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use std::time::Duration;

/// While this lives they are held.
pub struct Held {
    set: SigSet,
    before: SigSet,
}

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Came {
    pub number: i32,
    /// By the kernel, as Ctrl-C is: the whole foreground group has it.
    pub by_kernel: bool,
}

impl Held {
    pub fn hold(others: &[Signal]) -> nix::Result<Self> {
        let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        let set: SigSet = ending.into_iter().chain(others.iter().copied()).collect();
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), Some(&mut before))?;
        Ok(Held { set, before })
    }

    /// The signals that were blocked before.
    pub fn before(&self) -> SigSet {
        self.before
    }

    /// Waits so long, or until one comes.
    pub fn comes_within(&self, time: Duration) -> Option<Came> {
        let time = libc::timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        // SAFETY: all zeros is a valid siginfo_t, and it is overwritten.
        let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set, a place for the answer and a time of our own.
        let number = unsafe { libc::sigtimedwait(self.set.as_ref(), &mut told, &time) };
        (number > 0).then_some(Came { number, by_kernel: told.si_code > 0 })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}
