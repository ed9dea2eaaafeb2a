//! Memory of free blocks: looking whether it is zero, and clearing it.

use crate::base::PAGE_BYTES;
use crate::base::sync::{AtomicU64, Ordering};
use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

/// The first byte of a range that is not zero. The range starts and ends at multiples of 8.
///
/// # Safety
/// The range is readable, and nobody who follows the rules writes to it now.
pub unsafe fn first_nonzero(start: usize, bytes: usize) -> Option<usize> {
    // SAFETY: by the caller's promise.
    let words = unsafe { core::slice::from_raw_parts(at::<u64>(start), bytes / WORD) };
    // Most of the time all are zero.
    let (pieces, rest) = words.as_chunks::<{ PIECE / WORD }>();
    if pieces.iter().all(|piece| any_set(piece) == 0) && rest.iter().fold(0, |all, word| all | word) == 0 {
        return None;
    }
    let (index, word) = words.iter().enumerate().find(|(_, word)| **word != 0)?;
    Some(start + index * WORD + word.trailing_zeros() as usize / 8)
}

const WORD: usize = size_of::<u64>();
const PIECE: usize = 64;

/// Bits of any of 64 bytes, without a branch between them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn any_set(words: &[u64; 8]) -> u64 {
    // A compiler takes one word at a time here.
    use core::arch::x86_64::{__m128i, _mm_loadu_si128};
    let pairs: *const __m128i = words.as_ptr().cast();
    // SAFETY: a pair may be read wherever it lies, and four of them are there.
    set_in([0, 1, 2, 3].map(|place| unsafe { _mm_loadu_si128(pairs.add(place)) }))
}

/// Bits of any of 64 bytes that begin at a multiple of 16: half the instructions, since each pair is read where it is used.
///
/// # Safety
/// They are readable.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn any_set_aligned(start: usize) -> u64 {
    use core::arch::x86_64::{__m128i, _mm_load_si128};
    let pairs: *const __m128i = at(start);
    // SAFETY: by the caller's promise.
    set_in([0, 1, 2, 3].map(|place| unsafe { _mm_load_si128(pairs.add(place)) }))
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn set_in([a, b, c, d]: [core::arch::x86_64::__m128i; 4]) -> u64 {
    use core::arch::x86_64::{_mm_cvtsi128_si64, _mm_or_si128, _mm_unpackhi_epi64};
    // SAFETY: every x86-64 has these.
    unsafe {
        let all = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
        _mm_cvtsi128_si64(_mm_or_si128(all, _mm_unpackhi_epi64(all, all))) as u64
    }
}

/// Bits of any of 64 bytes that begin at a multiple of 16.
///
/// # Safety
/// They are readable.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn any_set_aligned(start: usize) -> u64 {
    // SAFETY: by the caller's promise.
    any_set(unsafe { &*at::<[u64; PIECE / WORD]>(start) })
}

/// Bits of any of 64 bytes, without a branch between them.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn any_set(words: &[u64; 8]) -> u64 {
    words.iter().fold(0, |all, word| all | word)
}

/// Whether a range of 32 bytes or more is zero. It starts and ends at multiples of 16.
///
/// # Safety
/// As `first_nonzero`.
#[inline(always)]
pub unsafe fn is_zero(start: usize, bytes: usize) -> bool {
    // SAFETY: by the caller's promise.
    let piece = |place: usize| unsafe { any_set_aligned(start + place) };
    if bytes < PIECE {
        // SAFETY: as above.
        let words = |place: usize| unsafe { at::<[u64; 2]>(start + place).read() };
        let [[a, b], [c, d], [e, f]] = [0, 16, bytes - 16].map(words);
        return a | b | c | d | e | f == 0;
    }
    // The last two may overlap: nothing is left over.
    let mut place = 0;
    while place < bytes - PIECE {
        if piece(place) != 0 {
            return false;
        }
        place += PIECE;
    }
    piece(bytes - PIECE) == 0
}

/// Brings the pages of a range into memory that are not there, and changes nothing: a page that is read before it is written
/// costs two faults.
///
/// # Safety
/// The range can be written, and nobody who follows the rules does so now.
pub unsafe fn bring_in(start: usize, bytes: usize) {
    let first_of_next = (start & !(PAGE_BYTES - 1)) + PAGE_BYTES;
    let pages = (first_of_next..start + bytes).step_by(PAGE_BYTES);
    // SAFETY: by the caller's promise.
    core::iter::once(start).chain(pages).for_each(|page| unsafe {
        (*at::<AtomicU64>(page)).fetch_or(0, Ordering::Relaxed);
    });
}

/// Clears a range of 16 bytes or more.
///
/// # Safety
/// The memory is the caller's alone.
#[inline(always)]
pub unsafe fn clear(start: usize, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        match bytes {
            ..=256 => clear_short(start, bytes),
            _ => at_mut::<u8>(start).write_bytes(0, bytes),
        }
    }
}

/// The same for 256 bytes at most: both ends, which may overlap, without a call or a loop.
///
/// # Safety
/// As `clear`.
#[inline(always)]
pub unsafe fn clear_short(start: usize, bytes: usize) {
    // SAFETY: by the caller's promise, for what lies in the range.
    let put = |place: usize| unsafe { at_mut::<[u64; 2]>(start + place).write_unaligned([0; 2]) };
    // SAFETY: as above.
    let put_long = |place: usize| unsafe { at_mut::<[u64; 8]>(start + place).write_unaligned([0; 8]) };
    match bytes {
        ..=32 => [0, bytes - 16].into_iter().for_each(put),
        33..=64 => [0, 16, bytes - 32, bytes - 16].into_iter().for_each(put),
        65..=128 => [0, bytes - 64].into_iter().for_each(put_long),
        _ => [0, 64, bytes - 128, bytes - 64].into_iter().for_each(put_long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cleared_and_nothing_beside_it() {
        for bytes in (16..400).step_by(1) {
            let mut memory = vec![u64::MAX; 64];
            let start = memory.as_mut_ptr().expose_provenance() + 16;
            // SAFETY: inside the memory.
            unsafe { clear(start, bytes) };
            let read = |place: usize| memory[place / 8].to_le_bytes()[place % 8];
            assert!((0..512).all(|place| (read(place) == 0) == (16..16 + bytes).contains(&place)), "{bytes}");
        }
    }

    #[test]
    fn one_byte_that_is_not_zero_is_seen_in_every_block() {
        for bytes in (32..600).step_by(16) {
            let mut memory = vec![0u128; bytes / 16];
            let start = memory.as_mut_ptr().expose_provenance();
            // SAFETY: all of the memory.
            let zero = || unsafe { is_zero(start, bytes) };
            assert!(zero());
            for place in 0..bytes {
                let byte = at_mut::<u8>(start + place);
                // SAFETY: inside the memory.
                unsafe { byte.write(1) };
                assert!(!zero(), "{bytes} {place}");
                // SAFETY: as above.
                unsafe { byte.write(0) };
            }
        }
    }

    #[test]
    fn the_first_byte_that_is_not_zero_is_found_anywhere() {
        fn found(memory: &[u64]) -> Option<usize> {
            let start = memory.as_ptr().expose_provenance();
            // SAFETY: all of a slice that nobody writes to now.
            unsafe { first_nonzero(start, size_of_val(memory)) }.map(|address| address - start)
        }
        let mut memory = [0u64; 21];
        assert_eq!(found(&memory), None);
        for place in 0..168 {
            memory[place / 8] = 1 << (place % 8 * 8);
            assert_eq!(found(&memory), Some(place));
            memory[place / 8] = 0;
        }
    }
}
