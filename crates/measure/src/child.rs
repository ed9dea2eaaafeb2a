//! One child process: its output, its time limit, what it used.

use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// None: it was still running at its limit and was killed.
    pub status: Option<ExitStatus>,
    pub output: String,
    pub errors: String,
    pub usage: Used,
}

/// The time and memory that the kernel accounted to a child.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub user_seconds: f64,
    pub peak_rss_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Of its own accord, because it waited.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// Runs a command to its end or its limit. Only the child itself is ended at the limit, by its id; should
/// this program be ended, the child ends with it.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    let (mut output, mut errors) = (unnamed_file()?, unnamed_file()?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
    // SAFETY: one system call without memory of ours, which is all that may happen between fork and exec.
    unsafe { command.pre_exec(end_with_parent) };
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let mut pause = Duration::from_millis(1);
    let (status, mut usage) = loop {
        if let Some((status, usage)) = try_wait(child.id())? {
            break (Some(status), usage);
        }
        if start.elapsed() > limit {
            child.kill().context("cannot end a child at its time limit")?;
            child.wait()?;
            break (None, Used::default());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    usage.wall_seconds = start.elapsed().as_secs_f64();
    Ok(Ended { status, output: text_of(&mut output)?, errors: text_of(&mut errors)?, usage })
}

/// For what a child writes: in memory, so there is nothing to remove; not a pipe, so a child that writes much does not
/// wait for a reader, and one that holds it open cannot block a reader.
pub fn unnamed_file() -> Result<File> {
    let file = memfd_create(c"output", MFdFlags::MFD_CLOEXEC);
    Ok(file.context("cannot make a file in memory for a child's output")?.into())
}

/// All that is in the file now.
pub fn text_of(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// To be called in a child before it becomes another program: it is killed when the thread that started it ends.
pub fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: concerns only the calling process.
    let refused = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if refused == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Like `waitpid` without waiting, but with what the child used. An error if it is no child of ours, or was waited for
/// already.
pub fn try_wait(process: u32) -> Result<Option<(ExitStatus, Used)>> {
    Ok(wait4(process as libc::pid_t)?.map(|(_, status, used)| (status, used)))
}

/// Of any child that has ended: its id too. None if none has, or there is none.
pub fn try_wait_any() -> Option<(u32, ExitStatus, Used)> {
    wait4(-1).ok().flatten()
}

fn wait4(process: libc::pid_t) -> Result<Option<(u32, ExitStatus, Used)>> {
    let mut status = 0;
    // SAFETY: all zero is a valid rusage; both out-parameters live here.
    let (ended, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let ended = libc::wait4(process, &mut status, libc::WNOHANG, &mut usage);
        (ended, usage)
    };
    match ended {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error()).context("cannot wait for a child"),
        _ => Ok(Some((ended as u32, ExitStatus::from_raw(status), used(&usage)))),
    }
}

fn used(usage: &libc::rusage) -> Used {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Used {
        wall_seconds: 0.0,
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        user_seconds: seconds(usage.ru_utime),
        peak_rss_kib: usage.ru_maxrss as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_leaves_its_output_its_errors_and_its_code() {
        let ended = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10)).unwrap();
        assert_eq!((ended.output.as_str(), ended.errors.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn a_child_that_does_not_end_is_ended_at_its_limit() {
        let ended = run(&mut shell("exec sleep 60"), Duration::from_millis(50)).unwrap();
        assert!(ended.status.is_none() && ended.usage.wall_seconds < 10.0);
    }
}
