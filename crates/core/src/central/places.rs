//! Place and length of the transfer array of each class.

use crate::class::{SizeClass, TABLE_LEN, block_bytes_of_index};

/// Places of the array of a large class.
const LEAST_PLACES: usize = 8192;
/// Places of the array of a small class: producers and consumers swing by so many, in their turns.
const MOST_PLACES: usize = 32768;

/// 2 MiB of blocks, between the bounds, in steps of the least: a whole number of pages of any size.
const fn places_of(block_bytes: usize) -> usize {
    let places = (2 << 20) / block_bytes / LEAST_PLACES * LEAST_PLACES;
    if places < LEAST_PLACES {
        LEAST_PLACES
    } else if places > MOST_PLACES {
        MOST_PLACES
    } else {
        places
    }
}

/// Offsets of the arrays, which lie one behind the other, in bytes.
const OFFSETS: [usize; TABLE_LEN + 1] = offsets();

const fn offsets() -> [usize; TABLE_LEN + 1] {
    let mut offsets = [0; TABLE_LEN + 1];
    let mut class = 0;
    while class < TABLE_LEN {
        let places = match block_bytes_of_index(class) {
            0 => 0,
            block_bytes => places_of(block_bytes),
        };
        offsets[class + 1] = offsets[class] + places * size_of::<usize>();
        class += 1;
    }
    offsets
}

/// The memory of all arrays, in bytes.
pub const ALL_BYTES: usize = OFFSETS[TABLE_LEN];

/// Offset and bytes of a class's array in the memory of all arrays.
pub fn place_of(class: SizeClass) -> (usize, usize) {
    let offset = |index: usize| OFFSETS.get(index).copied().unwrap_or(ALL_BYTES);
    let start = offset(class.index());
    (start, offset(class.index() + 1) - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_classes_have_more_places_and_no_two_classes_share_one() {
        let places = |bytes| place_of(SizeClass::for_small(bytes)).1 / size_of::<usize>();
        assert_eq!([16, 64, 80, 128, 256, 4096].map(places), [32768, 32768, 24576, 16384, 8192, 8192]);
        let mut end = 0;
        for class in SizeClass::all() {
            let (start, bytes) = place_of(class);
            assert_eq!((start, bytes % (64 << 10)), (end, 0), "pages may be of 64 KiB");
            end = start + bytes;
        }
        assert_eq!(end, ALL_BYTES);
        assert_eq!(place_of(SizeClass::NONE).1, 0);
    }
}
