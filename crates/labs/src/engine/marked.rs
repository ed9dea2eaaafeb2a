//! The processes that carry a lab's mark.

use super::identity::Identity;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::ffi::OsString;
use std::time::Duration;
use vcm_inspect::daemon::Role;
use vcm_inspect::process::{self, Process};
use vcm_inspect::root::Root;

type Variables = Vec<(OsString, OsString)>;

/// Set in the environment of everything that a lab starts, and inherited by what that starts in turn.
pub const MARK_VARIABLE: &str = "VCM_LAB";

/// How long a daemon may take to end by itself before it is killed. The cluster is thrown away anyway.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ends every process that carries this mark, daemons that went into the background included. One may be starting
/// another while it is looked at, so this looks again until nobody is left.
pub fn end(mark: &str) -> Result<()> {
    for _ in 0..10 {
        let found = marked(MARK_VARIABLE, mark);
        if found.is_empty() {
            return Ok(());
        }
        found.iter().for_each(|identity| _ = identity.signal(Signal::TERM));
        found.iter().for_each(|identity| _ = identity.end(PATIENCE));
    }
    bail!("processes of the lab with the mark {mark} keep returning")
}

/// The daemons of this role that a process of a lab, or what it started, has started.
pub fn daemons_of(role: Role, starter: i32) -> Vec<i32> {
    let Some(mark) = mark_of(starter) else { return Vec::new() };
    let is = |pid: i32| Role::of_process(&Process::new(pid)) == role;
    let pids = marked(MARK_VARIABLE, &mark).into_iter().filter(|identity| identity.is_alive());
    pids.map(|identity| identity.pid).filter(|pid| is(*pid)).collect()
}

/// The lab's mark in a process's environment.
pub fn mark_of(pid: i32) -> Option<String> {
    let variables = Process::new(pid).environment().ok()?;
    variables.into_iter().find(|(name, _)| name == MARK_VARIABLE)?.1.into_string().ok()
}

/// Every process whose environment at its start held this variable with this mark or a part of it
/// (`mark.part`).
fn marked(variable: &str, mark: &str) -> Vec<Identity> {
    let part = format!("{mark}.");
    let is_mark = |value: &OsString| value == mark || value.as_encoded_bytes().starts_with(part.as_bytes());
    let holds = |pid: &i32| {
        let environment = environment_of(&Process::new(*pid));
        environment.iter().any(|(name, value)| name == variable && is_mark(value))
    };
    let own = std::process::id() as i32;
    let all = process::all(&Root::real()).into_iter();
    all.filter(|pid| *pid != own && holds(pid)).filter_map(Identity::of).collect()
}

/// A process shows no environment for the moment in which it becomes another program; that moment is waited
/// for.
fn environment_of(process: &Process) -> Variables {
    for _ in 0..5 {
        match process.environment() {
            Ok(environment) if environment.is_empty() && may_be_starting(process) => {
                std::thread::sleep(Duration::from_millis(2));
            }
            environment => return environment.unwrap_or_default(),
        }
    }
    Variables::new()
}

/// Not a zombie and not a thread of the kernel: those never have one.
fn may_be_starting(process: &Process) -> bool {
    const FLAGS: usize = 6;
    const KERNEL_THREAD: u64 = 0x0020_0000;
    process.is_alive() && process.status_field(FLAGS).is_some_and(|flags| flags & KERNEL_THREAD == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_marked_process_is_found_and_its_parent_is_not() {
        let mut child = Command::new("sleep").arg("60").env("LABS_TEST_MARK", "a7.1").spawn().unwrap();
        assert!(marked("LABS_TEST_MARK", "a").is_empty(), "a mark is not found by its beginning");
        let found = marked("LABS_TEST_MARK", "a7");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, child.id() as i32);
        assert!(found[0].end(Duration::from_secs(5)));
        let _ = child.wait();
    }
}
