//! Whether a process can be looked into at all.
//!
//! Owns the reading of its state and flags (proc_pid_stat(5)) and the words for what cannot be: kernel
//! threads and processes that have ended have no memory, and most files of procfs then give errors that
//! sound like something else.

use super::process::{Process, THREADS};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Running,
    KernelThread,
    /// Ended, and its parent has not asked for its end.
    Zombie,
    /// The thread that it began with has ended; procfs shows the memory of that one only.
    WithoutMainThread,
    /// There is no such process, or not any more.
    Absent,
}

/// Fields of /proc/PID/stat by their number after the name.
const FLAGS: usize = 6;
/// The flag PF_KTHREAD of the kernel.
const IS_KERNEL_THREAD: u64 = 0x0020_0000;

impl Process {
    pub fn condition(&self) -> Condition {
        match self.state().as_deref() {
            None | Some("X") => Condition::Absent,
            Some("Z") if self.status_field(THREADS).is_some_and(|count| count > 1) => {
                Condition::WithoutMainThread
            }
            Some("Z") => Condition::Zombie,
            Some(_) if self.status_field(FLAGS).is_some_and(|flags| flags & IS_KERNEL_THREAD != 0) => {
                Condition::KernelThread
            }
            Some(_) => Condition::Running,
        }
    }
}

impl Condition {
    /// Why there is nothing to look into, as the end of "4711 ..."; none where there is.
    pub fn why_not_seen(self) -> Option<&'static str> {
        match self {
            Condition::Running => None,
            Condition::KernelThread => Some("is a kernel thread: it calls no malloc"),
            Condition::Zombie => Some("has ended and waits for its parent (zombie)"),
            Condition::WithoutMainThread => {
                Some("continues without its main thread, so /proc does not show its memory")
            }
            Condition::Absent => Some("does not run: no such process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    #[test]
    fn what_has_no_memory_is_told_by_state_flags_and_threads() {
        let (_folder, root) = Root::with_files(&[]);
        let condition_of = |state: &str, flags: u64, threads: u64| {
            let stat = format!("7 (a) b) {state} 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 9");
            root.write("/proc/7/stat", &stat);
            Process::in_root(&root, 7).condition()
        };
        // The figures that kthreadd, a shell, and two zombies of Linux 6 show.
        assert_eq!(condition_of("S", 0x0020_8040, 1), Condition::KernelThread);
        assert_eq!(condition_of("S", 0x0040_0100, 1), Condition::Running);
        assert_eq!(condition_of("Z", 0x0040_014c, 1), Condition::Zombie);
        assert_eq!(condition_of("Z", 0x0040_014c, 3), Condition::WithoutMainThread);
        assert_eq!(Process::in_root(&root, 8).condition(), Condition::Absent);
    }
}
