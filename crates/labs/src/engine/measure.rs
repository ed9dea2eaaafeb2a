//! Looking at processes from outside: processor time, memory, threads.
//!
//! Owns how /proc is read. Promises to fail for a process that is gone, never to report zeros for it.

use super::identity::{marked, stat_field};
use super::undo::MARK_VARIABLE;
use anyhow::{Context, Result};
use std::fs;

/// What a process, or several together, uses at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub rss_mib: f64,
    pub pss_mib: f64,
    pub anonymous_mib: f64,
    pub huge_mib: f64,
    pub peak_mib: f64,
    pub threads: u64,
    pub minor_faults: u64,
}

impl Usage {
    pub fn of(pid: i32) -> Result<Usage> {
        let gone = || format!("cannot look at process {pid}");
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).with_context(gone)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(gone)?;
        let mib = |text: &str, name| number_after(text, name).unwrap_or(0) as f64 / 1024.0;
        let field =
            |index| stat_field(pid, index).and_then(|text| text.parse::<u64>().ok()).with_context(gone);
        Ok(Usage {
            user_seconds: field(11)? as f64 / ticks_per_second(),
            system_seconds: field(12)? as f64 / ticks_per_second(),
            rss_mib: mib(&rollup, "Rss:"),
            pss_mib: mib(&rollup, "Pss:"),
            anonymous_mib: mib(&rollup, "Anonymous:"),
            huge_mib: mib(&rollup, "AnonHugePages:"),
            peak_mib: mib(&status, "VmHWM:"),
            threads: number_after(&status, "Threads:").unwrap_or(0),
            minor_faults: field(7)?,
        })
    }

    pub fn of_all(pids: impl IntoIterator<Item = i32>) -> Result<Usage> {
        pids.into_iter().try_fold(Usage::default(), |sum, pid| Ok(sum.plus(&Usage::of(pid)?)))
    }

    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    fn plus(&self, other: &Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds + other.user_seconds,
            system_seconds: self.system_seconds + other.system_seconds,
            rss_mib: self.rss_mib + other.rss_mib,
            pss_mib: self.pss_mib + other.pss_mib,
            anonymous_mib: self.anonymous_mib + other.anonymous_mib,
            huge_mib: self.huge_mib + other.huge_mib,
            peak_mib: self.peak_mib + other.peak_mib,
            threads: self.threads + other.threads,
            minor_faults: self.minor_faults + other.minor_faults,
        }
    }
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_ascii_whitespace().next()?.parse().ok()
}

fn ticks_per_second() -> f64 {
    // SAFETY: asks for a constant.
    (unsafe { libc::sysconf(libc::_SC_CLK_TCK) }) as f64
}

/// The processes of this name that a process of a lab, or what it started, has started.
pub fn named_like(name: &str, starter: i32) -> Vec<i32> {
    let Some(mark) = mark_of(starter) else { return Vec::new() };
    let is =
        |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    marked(MARK_VARIABLE, &mark)
        .into_iter()
        .filter(|identity| identity.is_alive() && is(identity.pid))
        .map(|identity| identity.pid)
        .collect()
}

/// The mark in a process's environment.
fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let begin = format!("{MARK_VARIABLE}=");
    let word = environment.split(|byte| *byte == 0).find(|word| word.starts_with(begin.as_bytes()))?;
    String::from_utf8(word[begin.len()..].to_vec()).ok()
}

/// The limit of open files that a child may be given, if so many are wanted.
pub fn open_files_possible(wanted: u64) -> u64 {
    use rustix::process::{Resource, getrlimit};
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if hard >= wanted {
        return hard;
    }
    // Raising the hard limit takes a capability that root in a container may lack: a trial in a child tells.
    let trial = std::process::Command::new("sh").args(["-c", &format!("ulimit -Hn {wanted}")]).output();
    if trial.is_ok_and(|trial| trial.status.success()) { wanted } else { hard }
}

/// Whether a file of this path is mapped in the process: the proof that a preload took effect.
pub fn maps(pid: i32, file: &std::path::Path) -> bool {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter_map(|line| line.split_once('/')).any(|(_, rest)| {
        let seen = format!("/{rest}");
        std::path::Path::new(&seen) == file
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_has_threads() {
        let usage = Usage::of(std::process::id() as i32).unwrap();
        assert!(usage.rss_mib > 0.5 && usage.pss_mib > 0.1 && usage.threads >= 1, "{usage:?}");
        assert!(usage.peak_mib >= usage.rss_mib * 0.9);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Usage::of(i32::MAX).is_err());
    }
}
