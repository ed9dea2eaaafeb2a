//! A filter of system calls that was there before us, and ends who asks for what the caches of virtual CPUs need.
//!
//! Nothing tells what such a filter says but to try it, in a child that may die of it. The library itself does not: a
//! program may be forbidden children, and we have one in any case.

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;

/// The calls that the library makes when it is loaded, harmless in a process that ends.
const CALLS: [(&str, libc::c_long, libc::c_long); 2] = [
    // Refused with an area of no length.
    ("rseq", libc::SYS_rseq, 0),
    (
        "membarrier",
        libc::SYS_membarrier,
        libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ as libc::c_long,
    ),
];

/// The first of the calls for which the filter that holds for us and for what we start ends a process.
pub fn deadly_call() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let is_filtered =
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|it| it.trim() == "2"));
    if !is_filtered {
        return None;
    }
    CALLS.into_iter().find(|(_, number, argument)| is_deadly(*number, *argument)).map(|(name, ..)| name)
}

fn is_deadly(number: libc::c_long, argument: libc::c_long) -> bool {
    // SAFETY: the child makes system calls and nothing else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: neither call reads or writes memory of ours; no core file is left.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
            libc::syscall(number, argument, 0, 0, 0);
            libc::_exit(0);
        }
    }
    child > 0 && matches!(waitpid(Pid::from_raw(child), None), Ok(WaitStatus::Signaled(_, Signal::SIGSYS, _)))
}
