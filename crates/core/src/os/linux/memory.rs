//! Address space and pages.

use super::super::{FreeRange, MapRefusal, Moved};
use super::thread::error_number;
use crate::base::round_up;
use core::ffi::CStr;
use core::ptr;
use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ,
    PROT_WRITE, c_void,
};

/// The addresses of heaps: behind the shadow memory of sanitizers, SPDK's windows (from 0x2000_0000_0000 up) and what
/// processes with the old layout map (from 0x2aaa_.. up); before position-independent executables (from 0x5555_..),
/// libraries and stacks. So stepwise growth meets nothing.
const PLACES_FROM: usize = 0x2e00_0000_0000;
const PLACES_TO: usize = 0x5400_0000_0000;
/// Places are multiples of this: that of huge pages.
const PLACE_STEP: usize = 2 << 20;
/// How often another place is drawn where one is taken.
const DRAWS: usize = 8;

pub(super) fn page_bytes() -> usize {
    // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

fn map(address: usize, bytes: usize, protection: i32, flags: i32) -> Option<usize> {
    let hint = ptr::without_provenance_mut(address);
    // SAFETY: an anonymous mapping without MAP_FIXED replaces nothing.
    let mapped = unsafe { libc::mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) };
    if mapped == MAP_FAILED { None } else { Some(mapped.addr()) }
}

pub(super) fn free_range(bytes: usize) -> Option<FreeRange> {
    let length = round_up(bytes, PLACE_STEP);
    let places = PLACES_TO.checked_sub(PLACES_FROM + length)? / PLACE_STEP;
    for _ in 0..DRAWS {
        let (drawn, random) = (super::chance::random(), super::chance::random());
        let address = PLACES_FROM + drawn as usize % places.max(1) * PLACE_STEP;
        if is_free(address) && is_free(address + length - PLACE_STEP) {
            return Some(FreeRange { address, random });
        }
    }
    // A machine with shorter addresses, or a system that does not take hints.
    let with_room = length + PLACE_STEP;
    let range = reserve(with_room)?;
    unmap(range, with_room);
    Some(FreeRange { address: round_up(range, PLACE_STEP), random: super::chance::random() })
}

/// A trial of one page tells whether this machine has such addresses at all.
fn is_free(address: usize) -> bool {
    let page = page_bytes();
    let trial = map(address, page, PROT_NONE, MAP_NORESERVE | MAP_FIXED_NOREPLACE);
    trial.inspect(|at| unmap(*at, page)).is_some_and(|at| at == address)
}

/// Pages may be lent to many more bytes than there are: sparse blocks are common in programs that map files.
const BUDGET_PER_MEMORY: usize = 8;
const LEAST_BUDGET: usize = 1 << 40;
const MOST_BUDGET: usize = 16 << 40;
/// Addresses cost nothing until they are used, and others may reserve hundreds of GiB in a row.
const LEAST_RANGE: usize = 4 << 40;

pub(super) fn memory_bytes() -> usize {
    // SAFETY: the call fills the structure that it is given.
    unsafe {
        let mut info: libc::sysinfo = core::mem::zeroed();
        libc::sysinfo(&mut info);
        (info.totalram as usize).saturating_mul(info.mem_unit as usize)
    }
}

/// Not by RLIMIT_AS: nothing is taken that is not used, and a limit may be lifted again.
pub(super) fn address_budget() -> usize {
    memory_bytes().saturating_mul(BUDGET_PER_MEMORY).clamp(LEAST_BUDGET, MOST_BUDGET)
}

pub(super) fn address_range() -> usize {
    address_budget().max(LEAST_RANGE)
}

pub(super) fn map_at(address: usize, bytes: usize) -> Result<(), MapRefusal> {
    map_exactly(address, bytes, PROT_READ | PROT_WRITE)
}

/// Without flags that a filter of system calls may not know: the kernel takes the address where it is free.
pub(super) fn map_plainly_at(address: usize, bytes: usize) -> Result<(), MapRefusal> {
    match map(address, bytes, PROT_READ | PROT_WRITE, 0) {
        Some(at) if at == address => Ok(()),
        Some(elsewhere) => {
            unmap(elsewhere, bytes);
            Err(MapRefusal::Taken)
        }
        None => Err(MapRefusal::Exhausted),
    }
}

/// Pages that may only be read are charged to nobody, however strict the system is, and take no memory when locked.
pub(super) fn map_zeros_at(address: usize, bytes: usize) -> Result<(), MapRefusal> {
    map_exactly(address, bytes, PROT_READ)
}

fn map_exactly(address: usize, bytes: usize, protection: i32) -> Result<(), MapRefusal> {
    match map(address, bytes, protection, MAP_NORESERVE | MAP_FIXED_NOREPLACE) {
        Some(at) if at == address => Ok(()),
        // Kernels before 4.17 take the flag for a hint and may map elsewhere.
        Some(elsewhere) => {
            unmap(elsewhere, bytes);
            Err(MapRefusal::Taken)
        }
        // SAFETY: errno is this thread's and was set by the refused call.
        None if unsafe { *libc::__errno_location() } == libc::EEXIST => Err(MapRefusal::Taken),
        None => Err(MapRefusal::Exhausted),
    }
}

pub(super) fn reserve(bytes: usize) -> Option<usize> {
    map(0, bytes, PROT_NONE, MAP_NORESERVE)
}

/// At a place that is drawn as those of heaps are. A machine with shorter addresses puts it where it puts the others.
pub(super) fn reserve_apart(bytes: usize, random: u64) -> Option<usize> {
    let places = (PLACES_TO - PLACES_FROM).saturating_sub(round_up(bytes, PLACE_STEP)) / PLACE_STEP;
    let hint = PLACES_FROM + random as usize % places.max(1) * PLACE_STEP;
    map(hint, bytes, PROT_NONE, MAP_NORESERVE)
}

pub(super) fn map_plainly(bytes: usize) -> Option<usize> {
    map(0, bytes, PROT_READ | PROT_WRITE, 0)
}

pub(super) fn commit(address: usize, bytes: usize) -> bool {
    // SAFETY: the range is part of a reservation of ours that nobody uses yet.
    unsafe { libc::mprotect(ptr::without_provenance_mut(address), bytes, PROT_READ | PROT_WRITE) == 0 }
}

pub(super) fn close_pages(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range, and nobody may use it any more.
    unsafe { libc::mprotect(ptr::without_provenance_mut(address), bytes, PROT_NONE) == 0 }
}

/// Of Linux 6.13; the libc crate has no names for them yet (include/uapi/asm-generic/mman-common.h).
pub(super) const MADV_GUARD_INSTALL: libc::c_int = 102;
pub(super) const MADV_GUARD_REMOVE: libc::c_int = 103;

/// Older kernels refuse the advice, and each refuses it for locked memory.
pub(super) fn mark_pages(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range, and nobody may use it any more.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, MADV_GUARD_INSTALL) == 0 }
}

pub(super) fn unmark_pages(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range, of which marked pages alone change.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, MADV_GUARD_REMOVE) == 0 }
}

pub(super) fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller gives up a range of its own. A refusal leaves it mapped, which loses addresses only.
    unsafe { libc::munmap(ptr::without_provenance_mut(address), bytes) };
}

pub(super) fn process_word() -> Option<usize> {
    let page = page_bytes();
    let word = map(0, page, PROT_READ | PROT_WRITE, 0)?;
    if wipe_in_children(word, page) {
        return Some(word);
    }
    unmap(word, page);
    None
}

pub(super) fn wipe_in_children(address: usize, bytes: usize) -> bool {
    // SAFETY: the pages are new and ours. Kernels before 4.14 refuse.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_WIPEONFORK) == 0 }
}

pub(super) fn populate(address: usize, bytes: usize) {
    // SAFETY: the pages are the caller's, and their contents stay. Kernels before 5.14 refuse.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_POPULATE_WRITE) };
}

pub(super) fn release(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range and needs none of its contents.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_DONTNEED) == 0 }
}

pub(super) fn set_dumped(address: usize, bytes: usize, dumped: bool) -> bool {
    let advice = if dumped { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: the advice changes what core files contain, nothing else.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, advice) == 0 }
}

/// False where the system has no names for pages: kernels before 5.17, and those built without.
pub(super) fn name_pages(address: usize, bytes: usize, name: &CStr) -> bool {
    const ANON_NAME: usize = libc::PR_SET_VMA_ANON_NAME as usize;
    let before = super::thread::error_number();
    let (option, name) = (libc::PR_SET_VMA as usize, name.as_ptr());
    // SAFETY: a name changes what is shown of the pages, nothing else.
    let refused = unsafe { libc::syscall(libc::SYS_prctl, option, ANON_NAME, address, bytes, name) } != 0;
    let has_names = !refused || super::thread::error_number() != libc::EINVAL;
    // A call of malloc that succeeds leaves it as it was.
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = before };
    has_names
}

pub(super) const MOVE_FLAGS: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;

pub(super) fn residency(address: usize, pages: &mut [u8]) -> bool {
    let length = pages.len() * page_bytes();
    // SAFETY: there is one byte for each page asked for.
    unsafe { libc::mincore(ptr::without_provenance_mut(address), length, pages.as_mut_ptr()) == 0 }
}

pub(super) fn move_pages(from: usize, to: usize, bytes: usize) -> Moved {
    if !(from | to | bytes).is_multiple_of(page_bytes().max(1)) {
        return Moved::Nothing;
    }
    if !is_one_mapping(from, bytes) {
        return Moved::Several;
    }
    let (old, new) = (ptr::without_provenance_mut(from), ptr::without_provenance_mut::<c_void>(to));
    // SAFETY: both ranges are the caller's; DONTUNMAP keeps the old one mapped, so nobody can slip in there.
    if unsafe { libc::mremap(old, bytes, bytes, MOVE_FLAGS, new) == new } {
        return Moved::All;
    }
    // The mapping at the target may be gone. Then all of it is: it is unmapped in one piece.
    match map_at(to, bytes) {
        Ok(()) | Err(MapRefusal::Taken) => Moved::Nothing,
        Err(MapRefusal::Exhausted) => Moved::Hole,
    }
}

/// Asks for so much more that it cannot be granted: the range would reach over the program's arguments, which lie above
/// all that is ours. The kernel refuses a range that is not one mapping first, and for another reason.
fn is_one_mapping(from: usize, bytes: usize) -> bool {
    // SAFETY: getauxval only reads the auxiliary vector.
    let above = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize & !(page_bytes() - 1);
    let Some(longer) = above.checked_sub(from).filter(|longer| *longer > bytes) else { return false };
    // SAFETY: the range is the caller's, and without leave to move it stays as it is.
    let answer = unsafe { libc::mremap(ptr::without_provenance_mut(from), bytes, longer + page_bytes(), 0) };
    answer == libc::MAP_FAILED && matches!(error_number(), libc::ENOMEM | libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs ask for many more addresses than they write to.
    #[test]
    fn a_heap_may_have_a_tebibyte_of_addresses_whatever_memory_the_machine_has() {
        assert!(address_budget() >= 1 << 40);
        assert!(address_range() >= address_budget());
    }
}
