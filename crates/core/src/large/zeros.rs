//! The zeros of `calloc`, for the least memory and the fewest page faults: pages in memory are written, missing ones are
//! left to the system.

use super::Large;
use crate::base::Fresh;
use crate::base::round_up;
use crate::class::LARGEST_BYTES;
use crate::os::Os;
use crate::pages::{HUGE_PAGE_BYTES, Pages};

/// From here on asking for fresh zero pages is cheaper than writing zeros to a block of a class, and callers of `calloc`
/// rarely touch all.
const FRESH_ZEROS_FROM: usize = 128 << 10;
/// Blocks up to here keep the memory that they have. A page fault costs some four times what writing the page does; but what
/// is longer is seldom written as a whole, and too much to hold for nothing.
const KEPT_UP_TO: usize = 32 << 20;
/// Pages that are looked at in one step, within one block of 2 MiB.
const PAGES: usize = 512;
/// A step with more parts in and out of memory in turns gives its pages back together.
const MOST_PARTS: usize = 16;

impl Large {
    /// Makes a block read as zeros: `bytes` of it were asked for. It may be one of a class.
    pub fn clear<O: Os>(&self, os: &O, pages: &Pages<O>, fresh: Fresh, bytes: usize) {
        let (page, end) = (os.page_bytes(), fresh.address + bytes);
        let (first, last) = (round_up(fresh.address, page), end & !(page - 1));
        // Also what is known to be zero: somebody may have written to it after it was free. Pages that nobody
        // touched cost the system nothing to take. A huge page would be in pieces.
        let worth = first < last && (fresh.zeroed || bytes >= FRESH_ZEROS_FROM) && !pages.is_huge(first);
        let keeps =
            !fresh.zeroed && bytes > LARGEST_BYTES && (bytes <= KEPT_UP_TO || pages.expects_filled(bytes));
        if worth && (keeps && clear_pages(os, first, last) || os.release(first, last - first)) {
            clear_part(fresh.address, first - fresh.address, fresh.zeroed);
            clear_part(last, end - last, fresh.zeroed);
        } else {
            clear_part(fresh.address, bytes, fresh.zeroed);
        }
    }
}

/// Clears whole pages of a block that its owner has not seen yet, and brings none in. False where the system does not say
/// which are in memory, or refuses.
#[inline(never)]
fn clear_pages<O: Os>(os: &O, first: usize, last: usize) -> bool {
    let (page, mut at, mut states) = (os.page_bytes().max(1), first, [0; PAGES]);
    while at < last {
        let end = round_up(at + 1, HUGE_PAGE_BYTES).min(last);
        let Some(states) = states.get_mut(..((end - at) / page).clamp(1, PAGES)) else { return false };
        let bytes = states.len() * page;
        if !os.residency(at, states) || !clear_step(os, at, page, states) {
            return false;
        }
        at += bytes;
    }
    true
}

fn clear_step<O: Os>(os: &O, start: usize, page: usize, states: &[u8]) -> bool {
    let is_resident = |state: &u8| state & 1 != 0;
    let resident = states.iter().filter(|state| is_resident(state)).count();
    let turns =
        states.iter().zip(states.iter().skip(1)).filter(|(one, next)| is_resident(one) != is_resident(next));
    // A sparse part stays so: its next owner may need as little of it.
    if resident < states.len() / 2 || turns.count() >= MOST_PARTS {
        return os.release(start, states.len() * page);
    }
    let mut from = 0;
    while let Some((first, rest)) = states.get(from..).and_then(<[u8]>::split_first) {
        let is_there = is_resident(first);
        let count = 1 + rest.iter().take_while(|state| is_resident(state) == is_there).count();
        let at = start + from * page;
        if is_there {
            (0..count).for_each(|number| clear_part(at + number * page, page, true));
        } else if !os.release(at, count * page) {
            // It may be elsewhere, and not zero.
            return false;
        }
        from += count;
    }
    true
}

/// Clears a part of a block that its owner has not seen yet. Memory that may well be zero is read first: to read a page that
/// nobody touched takes no memory.
fn clear_part(start: usize, bytes: usize, may_be_zero: bool) {
    let part = core::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the part lies in a block that is the caller's alone.
    unsafe {
        if !may_be_zero || !is_zero(core::slice::from_raw_parts(part, bytes)) {
            part.write_bytes(0, bytes);
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // So many at once as registers take.
    let mut parts = bytes.chunks_exact(64);
    let of = |part: &[u8]| part.iter().fold(0, |all, byte| all | byte) == 0;
    of(parts.remainder()) && parts.all(of)
}
