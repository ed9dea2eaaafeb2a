//! The identity of a process: a pid with the time it started at.
//!
//! Owns the proof that a pid is still the process that was started. Promises never to signal any other. The
//! journal and `process` use it.

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use vcm_inspect::process::Process;
use vcm_measure::stop::Stop;

/// Pids are used again; a pid and its start time (in clock ticks since boot) are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    pub started: u64,
}

impl Identity {
    pub fn of(pid: i32) -> Option<Identity> {
        Some(Identity { pid, started: Process::new(pid).start_ticks()? })
    }

    pub fn own() -> Identity {
        let pid = std::process::id() as i32;
        Identity::of(pid).unwrap_or(Identity { pid, started: 0 })
    }

    /// A zombie is not alive: it holds nothing any more.
    pub fn is_alive(&self) -> bool {
        Identity::of(self.pid) == Some(*self) && Process::new(self.pid).is_alive()
    }

    /// True when the process was there and got the signal.
    pub fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        // The descriptor stays with the process that has the pid now; if that is still ours, it is ours for
        // good.
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
        self.is_alive() && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
    }

    /// Asks it to end, insists after `patience`, and comes back when it is gone. False if it is still there.
    pub fn end(&self, patience: Duration) -> bool {
        self.signal(Signal::TERM);
        if self.wait_gone(patience) {
            return true;
        }
        self.signal(Signal::KILL);
        self.wait_gone(Duration::from_secs(10))
    }

    /// Waits also when the run is stopped: ending what was started is what a stop is for.
    fn wait_gone(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            self.reap();
            if !self.is_alive() {
                return true;
            }
            if begin.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The status that it ended with, if it is a child of ours and has ended. Only the first call after the end has it.
    pub fn reap(&self) -> Option<nix::sys::wait::WaitStatus> {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        match waitpid(nix::unistd::Pid::from_raw(self.pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(_) => None,
            Ok(status) => Some(status),
        }
    }

    /// Waits for it to end by itself.
    pub fn wait(&self, stop: &Stop, what: &str, limit: Duration) -> anyhow::Result<()> {
        stop.wait_for(what, limit, || {
            self.reap();
            Ok((!self.is_alive()).then_some(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_with_another_start_time_gets_no_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let ours = Identity::of(child.id() as i32).unwrap();
        let other = Identity { started: ours.started + 1, ..ours };
        assert!(!other.signal(Signal::KILL));
        assert!(other.end(Duration::ZERO), "what is not there needs no end");
        assert!(ours.is_alive());
        assert!(ours.end(Duration::from_secs(5)));
        let _ = child.wait();
    }

    #[test]
    fn a_process_that_ignores_the_request_is_ended_all_the_same() {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo; sleep 60"]);
        let mut child = child_ready(&mut command);
        assert!(Identity::of(child.id() as i32).unwrap().end(Duration::from_millis(100)));
        let _ = child.wait();
    }

    fn child_ready(command: &mut Command) -> std::process::Child {
        use std::io::Read;
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let _ = child.stdout.as_mut().unwrap().read(&mut [0; 1]).unwrap();
        child
    }
}
