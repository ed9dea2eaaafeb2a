//! Children under ptrace: looked at when they end, and stepped instruction by instruction.

use anyhow::{Context, Result, bail};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use vcm_inspect::process::Process;

/// A child that is stopped at its first instruction and traced; it dies with the tracer.
pub struct Traced {
    pub process: Pid,
}

impl Traced {
    pub fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: PTRACE_TRACEME is one system call, which is all that may happen between fork and exec.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(std::io::Error::from)) };
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let process = Pid::from_raw(child.id().cast_signed());
        waitpid(process, None).context("the child did not stop at its start")?;
        let traced = Self { process };
        ptrace::setoptions(process, Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACEEXIT)?;
        Ok(traced)
    }

    /// Lets the child run until it gets SIGTRAP by itself.
    pub fn run_to_trap(&self) -> Result<()> {
        let mut signal = None;
        loop {
            ptrace::cont(self.process, signal)?;
            match waitpid(self.process, None)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => return Ok(()),
                WaitStatus::Stopped(_, other) => signal = Some(other),
                other => bail!("the child ended before it trapped: {other:?}"),
            }
        }
    }

    fn run_to_exit(&self) -> Result<()> {
        let mut signal = None;
        loop {
            ptrace::cont(self.process, signal)?;
            match waitpid(self.process, None)? {
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT) => return Ok(()),
                WaitStatus::Stopped(_, other) => signal = Some(other),
                WaitStatus::PtraceEvent(..) => signal = None,
                other => bail!("the child was gone before its exit was seen: {other:?}"),
            }
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // A child in its exit stop does not see the signal and has to be let go; a child that has ended fails
        // both calls.
        let _ = signal::kill(self.process, Signal::SIGKILL);
        while let Ok(WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..)) = {
            let _ = ptrace::cont(self.process, None);
            waitpid(self.process, None)
        } {}
    }
}

/// The memory of a program in the moment it exits.
pub struct Seen {
    pub resident_kib: u64,
    mapped: String,
}

impl Seen {
    /// Whether a file is mapped, given by its path without links.
    pub fn maps(&self, file: &Path) -> bool {
        let file = format!(" {}", file.display());
        self.mapped.lines().any(|line| line.ends_with(&file))
    }
}

/// Runs a program to its exit and looks at it there; none if it has not come so far within the limit.
/// (`ru_maxrss` will not do: it begins with the memory of the process that started the program.)
pub fn seen_at_exit(command: &mut Command, limit: Duration) -> Result<Option<Seen>> {
    let traced = Traced::start(command)?;
    let process = traced.process;
    let (done, ended) = mpsc::channel::<()>();
    let (at_exit, is_late) = std::thread::scope(|scope| {
        // The tracer's waits have no limit of their own.
        let watchdog = scope.spawn(move || {
            let is_late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                let _ = signal::kill(process, Signal::SIGKILL);
            }
            is_late
        });
        let at_exit = traced.run_to_exit();
        drop(done);
        (at_exit, watchdog.join().unwrap_or(false))
    });
    if is_late {
        return Ok(None);
    }
    at_exit?;
    let rollup = Process::new(process.as_raw()).rollup()?;
    let resident_kib = rollup.bytes("Rss").context("the kernel gave no Rss line")? / 1024;
    let mapped = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    Ok(Some(Seen { resident_kib, mapped }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn true_uses_more_than_a_quarter_and_less_than_eight_mib() {
        let seen = seen_at_exit(&mut Command::new("/bin/true"), MINUTE).unwrap().unwrap();
        assert!((256..8192).contains(&seen.resident_kib), "{} KiB", seen.resident_kib);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(seen_at_exit(&mut Command::new("/nowhere/true"), MINUTE).is_err());
    }
}
