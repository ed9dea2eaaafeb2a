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

/// Whether this is the only thread, where glibc (2.32 and later) tells: then no sequence is under way while this is
/// asked. A name that nobody defines has address 0.
pub(super) fn is_single_threaded() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let symbol: *const u8;
        // SAFETY: reads our own global offset table, and the byte that glibc keeps there, or nothing.
        unsafe {
            core::arch::asm!(
                ".weak __libc_single_threaded",
                "mov {}, [rip + __libc_single_threaded@GOTPCREL]",
                out(reg) symbol, options(nostack, preserves_flags, readonly)
            );
            !symbol.is_null() && symbol.read_volatile() != 0
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
