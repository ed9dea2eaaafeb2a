//! CPUs, their number and their sequences.

use super::super::{IndexKind, SequenceArea};
use super::cgroup;

/// Offsets in the kernel's `struct rseq`.
const CPU_ID: isize = 4;
const MM_CID: isize = 24;
/// The area's length up to and including `mm_cid`, as the kernel tells it in the auxiliary vector.
const SIZE_WITH_MM_CID: usize = 28;
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// Where glibc (2.35 and later) registered each thread's area; none with an older one.
#[cfg(target_arch = "x86_64")]
fn glibc_area_offset() -> Option<isize> {
    let symbol: *const isize;
    // SAFETY: reads our own global offset table; a weak name that nobody defines has address 0 there.
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            "mov {}, [rip + __rseq_offset@GOTPCREL]",
            out(reg) symbol, options(nostack, preserves_flags, readonly)
        );
        if symbol.is_null() { None } else { Some(*symbol) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn sequence_area() -> Option<SequenceArea> {
    let area = glibc_area_offset()?;
    let cpu_id: i32;
    // SAFETY: glibc keeps an area at this offset in every thread, registered or not.
    unsafe {
        core::arch::asm!("mov {:e}, fs:[{}]", out(reg) cpu_id, in(reg) area + CPU_ID,
            options(nostack, preserves_flags, readonly));
    }
    if cpu_id < 0 || !register_fence() {
        return None;
    }
    // SAFETY: getauxval only reads the auxiliary vector.
    let size = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as usize;
    Some(if size >= SIZE_WITH_MM_CID {
        SequenceArea { area, index: area + MM_CID, kind: IndexKind::ConcurrencyId }
    } else {
        SequenceArea { area, index: area + CPU_ID, kind: IndexKind::CpuId }
    })
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn sequence_area() -> Option<SequenceArea> {
    None
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asked for while the process has one thread, when it costs nothing. Without the fence nobody could ever
/// take back what an idle virtual CPU holds, so a system that refuses it gets the locked caches.
fn register_fence() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
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
