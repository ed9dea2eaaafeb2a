//! Size classes as jemalloc's interface names them: bins are our classes of small blocks, extents the lengths of large blocks.
//!
//! A large block is any multiple of a unit. Of these the interface has four a doubling, up to the one that can be asked for at most.

use vcmalloc_core::class::{CLASS_COUNT, LARGEST_BYTES, SizeClass, UNIT_BYTES};

pub const BINS: usize = CLASS_COUNT;

/// The bin of a number, from 0.
pub fn bin(number: usize) -> Option<SizeClass> {
    (number < BINS).then(|| SizeClass::from_byte(number as u8 + 1))
}

/// Four a doubling from the first length above small blocks to seven eighths of the address space's half.
const fn length(number: usize) -> usize {
    let (doubling, step) = (number / 4, number % 4);
    (LARGEST_BYTES << doubling) / 4 * (5 + step)
}

const GREATEST: usize = 7 << 60;

pub const LENGTHS: usize = {
    let mut number = 0;
    while length(number) < GREATEST {
        number += 1;
    }
    number + 1
};
const _: () = assert!(length(LENGTHS - 1) == GREATEST && length(0).is_multiple_of(UNIT_BYTES));

/// Bytes of the large blocks of a number, from 0.
pub fn large(number: usize) -> Option<usize> {
    (number < LENGTHS).then(|| length(number))
}

/// The number that a large block of so many bytes is counted under: the next one that holds it.
pub fn number_of_large(bytes: usize) -> usize {
    (0..LENGTHS).find(|number| length(*number) >= bytes).unwrap_or(LENGTHS - 1)
}
