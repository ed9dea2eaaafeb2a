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

/// The affinity mask of this process and the bytes that the kernel filled in.
fn affinity() -> ([u64; SET_WORDS], usize) {
    let mut set = [0u64; SET_WORDS];
    let room = size_of_val(&set);
    // SAFETY: the kernel writes at most `room` bytes.
    let filled = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, room, set.as_mut_ptr()) };
    (set, filled.max(0) as usize)
}

/// The kernel's own mask is as long as its highest CPU number needs.
pub(super) fn possible() -> usize {
    let (_, filled) = affinity();
    if filled == 0 { MOST_CPUS } else { (filled * 8).min(MOST_CPUS) }
}

pub(super) fn usable() -> usize {
    let (set, _) = affinity();
    let allowed: u32 = set.iter().map(|word| word.count_ones()).sum();
    let allowed = (allowed as usize).max(1);
    cgroup::cpus().map_or(allowed, |quota| allowed.min(quota))
}
