//! What a thread of ours is to the system that works beside the program's.

use super::Linux;
use core::ffi::c_long;

impl Linux {
    /// Whether a system call may be made now.
    pub fn may_ask(&self, _number: c_long) -> bool {
        true
    }

    /// Fills in the CPUs that this process's main thread may run on; returns the words that the system gave.
    pub fn cpus_of_main_thread(&self, mask: &mut [u64]) -> usize {
        // SAFETY: the kernel writes at most as many bytes as the slice has.
        let filled = unsafe {
            let process = libc::syscall(libc::SYS_getpid);
            libc::syscall(libc::SYS_sched_getaffinity, process, size_of_val(mask), mask.as_mut_ptr())
        };
        filled.max(0) as usize / size_of::<u64>()
    }

    /// Gives this thread a table of descriptors of its own, which is empty: what it opens has no number in the
    /// program's, and no child gets it. False where the system does not (before Linux 5.9).
    pub fn leave_descriptors(&self) -> bool {
        if !self.may_ask(libc::SYS_close_range) {
            return false;
        }
        let (first, last, flags) = (0, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
        // SAFETY: no code that runs in this thread uses a descriptor that it did not open.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    }
}

/// Descriptors that are looked for where a thread takes the program's back.
const MOST_DESCRIPTORS: libc::c_long = 1024;

/// Copies of the program's descriptors under their numbers, for a thread that left them and now runs what the
/// program does at its end.
pub(super) fn copy_descriptors(os: &Linux) {
    let calls = [libc::SYS_pidfd_open, libc::SYS_pidfd_getfd, libc::SYS_dup3];
    if !calls.into_iter().all(|number| os.may_ask(number)) {
        return;
    }
    // SAFETY: the calls take no pointers. The table is this thread's own: what is closed was opened here.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, libc::syscall(libc::SYS_getpid), 0);
        if process < 0 {
            return;
        }
        // Out of the way, where the limit on descriptors lets it.
        let above = libc::syscall(libc::SYS_fcntl, process, libc::F_DUPFD_CLOEXEC, MOST_DESCRIPTORS);
        let source = if above < 0 { process } else { above };
        if source != process {
            libc::syscall(libc::SYS_close, process);
        }
        for number in (0..MOST_DESCRIPTORS).filter(|number| *number != source) {
            let copy = libc::syscall(libc::SYS_pidfd_getfd, source, number, 0);
            if copy >= 0 && copy != number {
                libc::syscall(libc::SYS_dup3, copy, number, 0);
                libc::syscall(libc::SYS_close, copy);
            }
        }
        libc::syscall(libc::SYS_close, source);
    }
}
