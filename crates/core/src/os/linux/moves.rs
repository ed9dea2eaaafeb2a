//! Moving pages instead of bytes.
//!
//! The pages of one mapping move as a whole or not at all. Those of several do not: before Linux 6.17 they are refused
//! after what lay at the target is gone, since then they are moved one mapping after the other, and where that stops
//! in the middle the front part is moved and the rest is not. So what is not one mapping is never asked to move.

use super::super::{MapRefusal, Moved};
use super::memory::{MOVE_FLAGS, map_at, page_bytes};
use super::thread::error_number;
use core::ptr;
use libc::c_void;

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
