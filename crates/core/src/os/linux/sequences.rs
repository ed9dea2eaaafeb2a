//! The place of each thread's area for restartable sequences, on the machines that these are written for.

use super::super::{IndexKind, SequenceArea};
use super::cpus::membarrier;

/// Offsets in the kernel's `struct rseq`.
const CPU_ID: isize = 4;
const MM_CID: isize = 24;
/// The area's length up to and including `mm_cid`, as the kernel tells it in the auxiliary vector.
const SIZE_WITH_MM_CID: usize = 28;
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// The offset at which glibc (2.35 and later) registered each thread's area; none with an older one.
fn glibc_area_offset() -> Option<isize> {
    let symbol: *const isize;
    // SAFETY: reads our own global offset table; a weak name that nobody defines has address 0 there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            ".weak __rseq_offset",
            "mov {}, [rip + __rseq_offset@GOTPCREL]",
            out(reg) symbol, options(nostack, preserves_flags, readonly)
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            ".weak __rseq_offset",
            "adrp {0}, :got:__rseq_offset",
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
            out(reg) symbol, options(nostack, preserves_flags, readonly)
        );
        if symbol.is_null() { None } else { Some(*symbol) }
    }
}

/// The CPU that the kernel wrote into this thread's area: negative where the thread is not registered.
///
/// # Safety
/// There is an area at this offset from the thread pointer.
pub(super) unsafe fn cpu_id(area: isize) -> i32 {
    let cpu_id: i32;
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {:e}, fs:[{}]", out(reg) cpu_id, in(reg) area + CPU_ID,
            options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {thread}, tpidr_el0", "ldr {cpu_id:w}, [{thread}, {at}]",
            thread = out(reg) _, cpu_id = lateout(reg) cpu_id, at = in(reg) area + CPU_ID,
            options(nostack, preserves_flags, readonly));
    }
    cpu_id
}

pub(super) fn area() -> Option<SequenceArea> {
    let area = glibc_area_offset()?;
    // SAFETY: glibc keeps an area at this offset in every thread, registered or not.
    let cpu_id = unsafe { cpu_id(area) };
    if cpu_id < 0 || !register_fence() {
        return None;
    }
    Some(indexed(area))
}

/// The area at this offset, with the best index that the kernel keeps there.
pub(super) fn indexed(area: isize) -> SequenceArea {
    // SAFETY: getauxval only reads the auxiliary vector.
    let size = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as usize;
    if size >= SIZE_WITH_MM_CID {
        SequenceArea { area, index: area + MM_CID, kind: IndexKind::ConcurrencyId }
    } else {
        SequenceArea { area, index: area + CPU_ID, kind: IndexKind::CpuId }
    }
}

/// Asked for while the process has one thread, when it costs nothing. Without the fence nobody could ever
/// take back what an idle virtual CPU holds, so a system that refuses it gets the locked caches.
pub(super) fn register_fence() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
}
