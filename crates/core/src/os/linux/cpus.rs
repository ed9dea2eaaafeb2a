//! CPUs, their number and the fence for their sequences.

use super::cgroup;

pub(super) fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

pub(super) fn fence_sequences() -> bool {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
}

const MOST_CPUS: usize = 8192;
const SET_WORDS: usize = MOST_CPUS / 64;

/// CPU numbers of this machine, at most, and how many of them the process may use; 0 where the system does not say.
pub(super) struct Cpus {
    pub possible: usize,
    pub allowed: usize,
}

/// As the affinity mask of the main thread of a process says now, or of this thread at 0: another's is about that thread alone.
/// The kernel's own mask is as long as its highest CPU number needs.
pub(super) fn of_process(process: u64) -> Cpus {
    let mut set = [0u64; SET_WORDS];
    let room = size_of_val(&set);
    // SAFETY: the kernel writes at most `room` bytes.
    let filled = unsafe { libc::syscall(libc::SYS_sched_getaffinity, process, room, set.as_mut_ptr()) };
    let allowed: u32 = set.iter().map(|word| word.count_ones()).sum();
    let possible = if filled <= 0 { MOST_CPUS } else { (filled as usize * 8).min(MOST_CPUS) };
    Cpus { possible, allowed: allowed as usize }
}

/// As many as the process's groups may run on, and as their quota is worth, of those that are allowed.
pub(super) fn within_groups(allowed: usize) -> usize {
    [cgroup::cpus_of_set(), cgroup::cpus()].into_iter().flatten().fold(allowed, usize::min)
}

#[cfg(test)]
mod tests {
    use super::super::super::Os;
    use super::super::Linux;
    use super::*;

    #[test]
    fn cpus_are_those_of_the_process_as_it_was_when_first_asked() {
        let os = Linux::new();
        let before = os.possible_cpus();
        let usable = os.usable_cpus(0);
        // This thread is none of the main thread's, and binds itself to one CPU.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut one = [0u64; SET_WORDS];
                let bytes = size_of_val(&one);
                // SAFETY: both calls take the mask, which is so long.
                unsafe {
                    libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, one.as_mut_ptr());
                    let first = one.iter().position(|word| *word != 0).unwrap();
                    let lowest = one[first] & one[first].wrapping_neg();
                    one = [0; SET_WORDS];
                    one[first] = lowest;
                    assert_eq!(libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, one.as_ptr()), 0);
                }
                assert_eq!((os.possible_cpus(), os.usable_cpus(0)), (before, usable));
                assert_eq!(
                    Linux::new().usable_cpus(0),
                    usable,
                    "another heap's first question is about the process"
                );
            });
        });
    }
}
