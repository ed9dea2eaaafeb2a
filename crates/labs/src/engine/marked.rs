//! The processes that carry a lab's mark.

use super::identity::marked;
use super::undo::MARK_VARIABLE;
use vcm_inspect::daemon::Role;
use vcm_inspect::process::Process;

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
