//! Address space and pages.

use super::super::MapRefusal;
use core::ptr;
use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ,
    PROT_WRITE,
};

/// The heap's usual place: far from where the kernel puts executables, libraries, stacks and the shadow
/// memory of sanitizers, so that stepwise growth meets nothing.
const USUAL_PLACE: usize = 0x2000_0000_0000;
/// The place moves by a random multiple of this, up to 32 TiB.
const PLACE_STEP: usize = 1 << 32;

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

pub(super) fn free_range(bytes: usize) -> Option<usize> {
    let usual = USUAL_PLACE + (random_word() % 8192) * PLACE_STEP;
    // A trial of one page tells whether this machine has such addresses at all.
    if map(usual, 4096, PROT_NONE, MAP_NORESERVE | MAP_FIXED_NOREPLACE).is_some_and(|at| at == usual) {
        unmap(usual, 4096);
        return Some(usual);
    }
    let range = reserve(bytes)?;
    unmap(range, bytes);
    Some(range)
}

/// Sixteen random bytes come with every process; the first word is enough to place a heap.
pub(super) fn random_word() -> usize {
    // SAFETY: AT_RANDOM is 0 or the address of 16 readable bytes that live as long as the process.
    unsafe {
        let bytes = libc::getauxval(libc::AT_RANDOM) as *const usize;
        if bytes.is_null() { 0 } else { bytes.read_unaligned() }
    }
}

/// Pages may be lent to many more bytes than there are: sparse blocks are common in programs that map files.
const BUDGET_PER_MEMORY: usize = 8;
const LEAST_BUDGET: usize = 64 << 30;
const MOST_BUDGET: usize = 16 << 40;

pub(super) fn memory_bytes() -> usize {
    // SAFETY: the call fills the structure that it is given.
    unsafe {
        let mut info: libc::sysinfo = core::mem::zeroed();
        libc::sysinfo(&mut info);
        (info.totalram as usize).saturating_mul(info.mem_unit as usize)
    }
}

pub(super) fn address_budget() -> usize {
    let by_memory = memory_bytes().saturating_mul(BUDGET_PER_MEMORY).clamp(LEAST_BUDGET, MOST_BUDGET);
    // SAFETY: the call fills the structure that it is given.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        // Twice the limit, for places that turn out to be taken.
        by_memory.min((limit.rlim_cur as usize).saturating_mul(2))
    }
}

pub(super) fn map_at(address: usize, bytes: usize) -> Result<(), MapRefusal> {
    match map(address, bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE | MAP_FIXED_NOREPLACE) {
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

pub(super) fn commit(address: usize, bytes: usize) -> bool {
    // SAFETY: the range is part of a reservation of ours that nobody uses yet.
    unsafe { libc::mprotect(ptr::without_provenance_mut(address), bytes, PROT_READ | PROT_WRITE) == 0 }
}

pub(super) fn close_pages(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range, and nobody may use it any more.
    unsafe { libc::mprotect(ptr::without_provenance_mut(address), bytes, PROT_NONE) == 0 }
}

pub(super) fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller gives up a range of its own. A refusal leaves it mapped, which loses addresses only.
    unsafe { libc::munmap(ptr::without_provenance_mut(address), bytes) };
}

pub(super) fn process_word() -> Option<usize> {
    let page = page_bytes();
    let word = map(0, page, PROT_READ | PROT_WRITE, 0)?;
    // SAFETY: the page is new and ours. Kernels before 4.14 refuse.
    if unsafe { libc::madvise(ptr::without_provenance_mut(word), page, libc::MADV_WIPEONFORK) } == 0 {
        return Some(word);
    }
    unmap(word, page);
    None
}

pub(super) fn populate(address: usize, bytes: usize) {
    // SAFETY: the pages are the caller's, and their contents stay. Kernels before 5.14 refuse.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_POPULATE_WRITE) };
}

pub(super) fn give_back(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range and needs none of its contents.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_DONTNEED) == 0 }
}

pub(super) fn set_dumped(address: usize, bytes: usize, dumped: bool) -> bool {
    let advice = if dumped { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: the advice changes what core files contain, nothing else.
    unsafe { libc::madvise(ptr::without_provenance_mut(address), bytes, advice) == 0 }
}

pub(super) const MOVE_FLAGS: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;

pub(super) fn move_pages(from: usize, to: usize, bytes: usize) -> bool {
    // Asked for parts of pages the system would refuse, and that is no reason to look after the target below.
    if !(from | to | bytes).is_multiple_of(page_bytes().max(1)) {
        return false;
    }
    let (from, to) = (ptr::without_provenance_mut(from), ptr::without_provenance_mut::<libc::c_void>(to));
    // SAFETY: both ranges are the caller's; DONTUNMAP keeps the old one mapped, so nobody can slip in there.
    if unsafe { libc::mremap(from, bytes, bytes, MOVE_FLAGS, to) == to } {
        return true;
    }
    // Kernels before 6.17 unmap the target before they find that they cannot move several mappings at once.
    if map_at(to.addr(), bytes) == Err(MapRefusal::Exhausted) {
        // A hole in the middle of the heap cannot be lived with.
        super::process::abort();
    }
    false
}
#[inline(never)]
pub(super) fn resident_bytes(address: usize, bytes: usize) -> Option<usize> {
    const PAGES: usize = 512;
    let page = page_bytes().max(1);
    let mut states = [0u8; PAGES];
    let mut resident = 0;
    let mut at = address;
    while at < address + bytes {
        let length = (address + bytes - at).min(PAGES * page);
        // SAFETY: `states` has one byte for each page asked for.
        if unsafe { libc::mincore(ptr::without_provenance_mut(at), length, states.as_mut_ptr()) } != 0 {
            return None;
        }
        resident += states.iter().take(length / page).filter(|state| **state & 1 != 0).count() * page;
        at += length;
    }
    Some(resident)
}
