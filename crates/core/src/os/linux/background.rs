//! The system's view of a thread of ours that works beside the program's.

use super::allowed::Ask;
use super::{Linux, files};
use core::ffi::CStr;

/// Files of the system that say what this thread is, without a call that a filter might end the process for.
const STAT: &CStr = c"/proc/thread-self/stat";
const STATUS: &CStr = c"/proc/thread-self/status";
/// Of `STAT`, counted from the field behind the name.
const POLICY: usize = 38;

impl Linux {
    /// Whether this thread, and so those that it makes, has another policy than `SCHED_OTHER`. False where it cannot be told.
    pub fn has_own_policy(&self) -> bool {
        let mut line = [0; 1024];
        self.allowed.may_read()
            && files::read_once(STAT, &mut line).is_ok_and(|used| tells_policy(&line, used))
    }

    /// Whether this thread may run elsewhere than on these CPUs, or not on all of them. False where it cannot be told.
    pub fn runs_elsewhere(&self, cpus: &[u64]) -> bool {
        const MOST_WORDS: usize = 16;
        let mut own = [0u64; MOST_WORDS];
        if !self.allowed.may(Ask::Affinity) {
            return false;
        }
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let filled =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&own), own.as_mut_ptr()) };
        filled > 0 && own.iter().zip(cpus).any(|(own, wanted)| own != wanted)
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

    /// Gives this thread a table of descriptors of its own, which is empty: a descriptor that it opens has no number in
    /// the program's, and no child gets it. False where the system does not (before Linux 5.9).
    pub fn leave_descriptors(&self) -> bool {
        if !self.may_ask(libc::SYS_close_range) {
            return false;
        }
        let (first, last, flags) = (0, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
        // SAFETY: no code that runs in this thread uses a descriptor that it did not open.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    }
}

/// Whether no filter of system calls holds for this thread.
pub(super) fn is_unfiltered() -> bool {
    let mut text = [0; 2048];
    files::read_once(STATUS, &mut text).is_ok_and(|used| tells_no_filter(&text, used))
}

fn tells_policy(line: &[u8], used: usize) -> bool {
    let line = line.get(..used).unwrap_or(&[]);
    // The name may have anything in it, blanks and brackets too.
    let behind = line.iter().rposition(|byte| *byte == b')').and_then(|at| line.get(at + 2..)).unwrap_or(&[]);
    let policy = behind.split(|byte| *byte == b' ').nth(POLICY);
    policy.is_some_and(|policy| policy != b"0")
}

/// A kernel without filters has no such line.
fn tells_no_filter(text: &[u8], used: usize) -> bool {
    let text = text.get(..used).unwrap_or(&[]);
    let mut modes = text.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"Seccomp:"));
    !text.is_empty() && modes.next().is_none_or(|mode| mode.trim_ascii() == b"0")
}

/// Descriptors that are looked for where a thread takes the program's back.
const MOST_DESCRIPTORS: libc::c_long = 1024;

/// Copies of the program's descriptors under their numbers, for a thread that left them and now runs what the
/// program does at its end.
pub(super) fn copy_descriptors(os: &Linux) {
    let calls = [libc::SYS_pidfd_open, libc::SYS_pidfd_getfd, libc::SYS_dup3];
    if !calls.into_iter().all(|number| os.may_ask(number)) || !os.has_no_unread_filter() {
        return;
    }
    // SAFETY: the calls take no pointers. The table is this thread's own: each closed descriptor was opened here.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, os.own_number(), 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Os;

    #[test]
    fn the_policy_is_found_behind_any_name() {
        let line = |name: &str, policy: &str| {
            let zeros = "0 ".repeat(37);
            format!("7 ({name}) S {zeros}{policy} 0 0\n")
        };
        for name in ["redis", "a) S 1 (b", ""] {
            for (policy, has_own) in [("0", false), ("1", true), ("5", true)] {
                let line = line(name, policy);
                assert_eq!(tells_policy(line.as_bytes(), line.len()), has_own, "{line}");
            }
        }
        assert!(!tells_policy(b"7 (x", 4) && !tells_policy(b"", 0) && !tells_policy(b"x", 9));
    }

    #[test]
    fn a_filter_is_seen_in_status() {
        let tells = |text: &str| tells_no_filter(text.as_bytes(), text.len());
        assert!(tells("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n") && tells("Name:\tx\n"));
        assert!(!tells("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n") && !tells(""));
    }

    #[test]
    fn this_thread_is_an_ordinary_one_on_its_own_cpus() {
        let os = Linux::new();
        let mut cpus = [0; 16];
        // SAFETY: the kernel writes at most as many bytes as the array has.
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&cpus), cpus.as_mut_ptr()) };
        assert!(!os.has_own_policy() && !os.runs_elsewhere(&cpus));
        let [first, ..] = &mut cpus;
        *first ^= 1;
        assert!(os.runs_elsewhere(&cpus));
        os.keep_to_list();
        assert!(!os.runs_elsewhere(&cpus) && !os.has_no_unread_filter());
    }
}
