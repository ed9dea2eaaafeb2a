//! Being stopped: Ctrl-C, SIGTERM and SIGHUP, seen by every wait.
//!
//! Owns the flag and the only ways to wait. Promises that a wait ends within 50 ms of the signal, with the
//! error `Stopped`. Everything that waits uses it; nothing in a lab may call `thread::sleep`.

use anyhow::{Result, bail};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How often a condition that cannot wake us is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tests: `signal:7`, `panic:7` or `kill:7` does that to this process at the seventh check.
pub const FAULT_VARIABLE: &str = "VCM_LABS_FAULT";

/// The error of every wait once a signal came.
#[derive(Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("stopped by a signal")
    }
}

impl std::error::Error for Stopped {}

/// A handle to the flag; clones share it.
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Default)]
struct Shared {
    asked: Mutex<bool>,
    changed: Condvar,
    checks: AtomicU64,
}

impl Stop {
    /// The flag that signals set. The handlers are installed by the first call.
    pub fn on_signals() -> Result<Stop> {
        static STOP: OnceLock<Stop> = OnceLock::new();
        if let Some(stop) = STOP.get() {
            return Ok(stop.clone());
        }
        let stop = STOP.get_or_init(Stop::default).clone();
        let asked = stop.clone();
        ctrlc::set_handler(move || asked.ask())?;
        Ok(stop)
    }

    pub fn ask(&self) {
        *self.asked() = true;
        self.0.changed.notify_all();
    }

    pub fn is_asked(&self) -> bool {
        *self.asked()
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, bool> {
        self.0.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// To be called between steps; all waits do.
    pub fn check(&self) -> Result<()> {
        self.fault();
        if self.is_asked() {
            bail!(Stopped);
        }
        Ok(())
    }

    pub fn sleep(&self, time: Duration) -> Result<()> {
        self.check()?;
        let waited = self.0.changed.wait_timeout_while(self.asked(), time, |asked| !*asked);
        drop(waited);
        self.check()
    }

    /// Looks every 50 ms until `look` has something; an error that names `what` after `limit`.
    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if begin.elapsed() >= limit {
                bail!("waited {} s in vain for {what}", limit.as_secs());
            }
            self.sleep(LOOK_EVERY)?;
        }
    }

    /// How many checks there were: how many places a test can stop a run at.
    pub fn checks(&self) -> u64 {
        self.0.checks.load(Ordering::Relaxed)
    }

    fn fault(&self) {
        let count = self.0.checks.fetch_add(1, Ordering::Relaxed) + 1;
        let Ok(fault) = std::env::var(FAULT_VARIABLE) else { return };
        let Some((kind, at)) = fault.split_once(':') else { return };
        if at.parse() != Ok(count) {
            return;
        }
        match kind {
            "signal" => self.raise(nix::sys::signal::Signal::SIGINT),
            "kill" => self.raise(nix::sys::signal::Signal::SIGKILL),
            _ => panic!("asked for by {FAULT_VARIABLE}"),
        }
    }

    /// The handler runs on a thread of its own: this waits for it, so that the fault is at this check and no
    /// later.
    fn raise(&self, signal: nix::sys::signal::Signal) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), signal);
        let limit = Duration::from_secs(5);
        let waited = self.0.changed.wait_timeout_while(self.asked(), limit, |asked| !*asked);
        drop(waited);
    }
}

/// Whether this error is, or comes from, a signal.
pub fn is_stopped(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Stopped>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_when_a_stop_is_asked_for() {
        let stop = Stop::default();
        let other = stop.clone();
        let sleeper = std::thread::spawn(move || other.sleep(Duration::from_secs(600)));
        stop.ask();
        let error = sleeper.join().unwrap().unwrap_err();
        assert!(is_stopped(&error), "{error}");
    }

    #[test]
    fn a_wait_in_vain_names_what_was_waited_for() {
        let error = Stop::default().wait_for("bricks", Duration::ZERO, || Ok(None::<()>)).unwrap_err();
        assert!(error.to_string().contains("bricks"), "{error}");
        assert!(!is_stopped(&error));
    }

    #[test]
    fn a_stopped_error_is_known_under_its_contexts() {
        let error = anyhow::Error::new(Stopped).context("while starting glusterd");
        assert!(is_stopped(&error));
    }
}
