//! All processes that one command became: found, looked at, ended.
//!
//! The process that uses this has no other children, and one tree at a time: orphans come to it, so that what forks away
//! is still found, and every child that ends is reaped here.

use crate::child::{self, Used, try_wait_any};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use vcm_inspect::process::{Process, descendants};

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A process that does not end after SIGKILL waits for a device.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(10);

/// Makes orphans of this process's descendants its children.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: concerns only the calling process.
    let refused = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    if refused == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()).context("cannot adopt orphans") }
}

/// Descendants of this process, and how its children ended.
#[derive(Default)]
pub struct Tree {
    ended: BTreeMap<i32, (ExitStatus, Used)>,
}

/// Of several processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    pub rss_bytes: f64,
    pub pss_bytes: f64,
    /// The part of `pss_bytes` that no file holds: heap and stacks.
    pub anonymous_bytes: f64,
}

impl Tree {
    /// Waits for the end of a child, or so long; less when a signal arrives.
    pub fn wait(&mut self, child: i32, most: Duration) {
        // SAFETY: returns a new descriptor or an error, and changes nothing.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) } as libc::c_int;
        if descriptor < 0 {
            return std::thread::sleep(most.min(LOOK_EVERY));
        }
        // SAFETY: it was just opened, and nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let mut watched = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut watched, 1, most.as_millis().max(1) as libc::c_int) };
    }

    /// Starts a command in a process group of its own: Ctrl-C at the terminal does not reach it. It is killed should
    /// this program be.
    pub fn start(&mut self, command: &mut Command) -> std::io::Result<i32> {
        // SAFETY: one system call without memory of ours, which is all that may happen between fork and exec.
        unsafe { command.pre_exec(child::end_with_parent) };
        let id = command.process_group(0).spawn()?.id() as i32;
        self.ended.remove(&id);
        Ok(id)
    }

    /// How a child ended and what it, and what it waited for, used.
    pub fn ended(&mut self, child: i32) -> Option<(ExitStatus, Used)> {
        self.reap();
        self.ended.get(&child).copied()
    }

    fn reap(&mut self) {
        while let Some((id, status, used)) = try_wait_any() {
            self.ended.insert(id as i32, (status, used));
        }
    }

    /// All that live, but for those below `other` and itself.
    pub fn living(&mut self, other: Option<i32>) -> Vec<i32> {
        self.reap();
        let apart: BTreeSet<i32> =
            other.map_or_else(BTreeSet::new, |other| descendants(other).into_iter().chain([other]).collect());
        let own = descendants(std::process::id() as i32);
        own.into_iter().filter(|id| !apart.contains(id) && Process::new(*id).is_alive()).collect()
    }

    /// Ends all. The ids of what could not be ended.
    pub fn end(&mut self) -> Vec<i32> {
        let begin = Instant::now();
        loop {
            // Until none is left: one may have forked while the others were ended.
            let left = self.living(None);
            if left.is_empty() || begin.elapsed() > PATIENCE_AFTER_KILL {
                self.reap();
                return left;
            }
            for id in left {
                let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The memory of processes now. A process that may not be looked at, or is gone, counts nothing.
pub fn memory(processes: &[i32]) -> Memory {
    let mut sum = Memory::default();
    for id in processes {
        let Ok(lines) = Process::new(*id).rollup() else { continue };
        sum.rss_bytes += lines.bytes("Rss").unwrap_or(0) as f64;
        sum.pss_bytes += lines.bytes("Pss").unwrap_or(0) as f64;
        sum.anonymous_bytes += lines.bytes("Pss_Anon").unwrap_or(0) as f64;
    }
    sum
}
