//! CPUs, their number and their sequences.

use super::super::{IndexKind, SequenceArea};
use super::process;
use core::ffi::CStr;

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

/// Asked for while the process has one thread, when it costs nothing. Without the fence nobody could ever take back
/// what an idle virtual CPU holds, so a system that refuses it gets the locked caches.
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
    quota().map_or(allowed, |quota| allowed.min(quota))
}

/// CPUs that the cgroup's bandwidth limit is worth, rounded up: version 2's `cpu.max`, then version 1's pair.
fn quota() -> Option<usize> {
    let mut groups = [0u8; 2048];
    let length = process::read_file(c"/proc/self/cgroup", &mut groups)?;
    let groups = groups.get(..length)?;
    let mut least = None;
    for line in groups.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (_, controllers, path) = (fields.next(), fields.next().unwrap_or(&[]), fields.next().unwrap_or(&[]));
        let limit = if controllers.is_empty() {
            smallest_on_path(b"/sys/fs/cgroup", path, quota_v2)
        } else if controllers.split(|byte| *byte == b',').any(|name| name == b"cpu") {
            smallest_on_path(b"/sys/fs/cgroup/cpu", path, quota_v1)
        } else {
            None
        };
        least = smaller(least, limit);
    }
    least
}

fn smaller(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        _ => left.or(right),
    }
}

/// A limit may stand at the group itself or at any of its ancestors; the smallest holds.
fn smallest_on_path(root: &[u8], path: &[u8], read: fn(&[u8], &[u8]) -> Option<usize>) -> Option<usize> {
    let mut least = read(root, b"");
    let mut rest = path;
    while rest.len() > 1 {
        least = smaller(least, read(root, rest));
        let parent = rest.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        rest = rest.get(..parent).unwrap_or(&[]);
    }
    least
}

fn quota_v2(root: &[u8], group: &[u8]) -> Option<usize> {
    let mut text = [0u8; 64];
    let content = read_joined(&[root, group, b"/cpu.max"], &mut text)?;
    let mut words = content.split(|byte| byte.is_ascii_whitespace());
    cpus_worth(number(words.next()?)?, number(words.next()?)?)
}

fn quota_v1(root: &[u8], group: &[u8]) -> Option<usize> {
    let (mut quota, mut period) = ([0u8; 32], [0u8; 32]);
    let quota = number(read_joined(&[root, group, b"/cpu.cfs_quota_us"], &mut quota)?)?;
    let period = number(read_joined(&[root, group, b"/cpu.cfs_period_us"], &mut period)?)?;
    cpus_worth(quota, period)
}

fn cpus_worth(quota: usize, period: usize) -> Option<usize> {
    if quota == 0 || period == 0 { None } else { Some(quota.div_ceil(period)) }
}

/// None for `max` and `-1`, which mean that there is no limit.
fn number(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

fn read_joined<'a>(parts: &[&[u8]], content: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0u8; 512];
    let mut used = 0;
    for part in parts {
        path.get_mut(used..used + part.len())?.copy_from_slice(part);
        used += part.len();
    }
    let path = CStr::from_bytes_until_nul(path.get(..used + 1)?).ok()?;
    let length = process::read_file(path, content)?;
    content.get(..length)
}
