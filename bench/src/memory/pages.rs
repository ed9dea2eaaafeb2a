//! The limit of an allocator that cannot move blocks: the pages that hold at least one byte of a live block.

/// The page of the machines that this is about.
pub const PAGE_BYTES: usize = 4096;

/// The least that a set of live blocks needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub blocks: u64,
    pub bytes: u64,
    /// Whole pages that hold part of a block, in bytes.
    pub page_bytes: u64,
}

/// Counts blocks given as (address, requested bytes). `scratch` is where page numbers are sorted: it needs a
/// place for every page of every block, counted per block, and is not taken from the heap.
pub fn footprint(blocks: impl Iterator<Item = (usize, usize)>, scratch: &mut [u64]) -> Footprint {
    let mut found = Footprint::default();
    let mut used = 0;
    for (address, bytes) in blocks {
        found.blocks += 1;
        found.bytes += bytes as u64;
        for page in pages_of(address, bytes) {
            // Neighbours often share a page: most duplicates go before the sort.
            if used == 0 || scratch[used - 1] != page {
                scratch[used] = page;
                used += 1;
            }
        }
    }
    let pages = &mut scratch[..used];
    // Unstable: it sorts in place, the stable one would allocate.
    pages.sort_unstable();
    let repeated = pages.windows(2).filter(|pair| pair[0] == pair[1]).count();
    found.page_bytes = ((used - repeated) * PAGE_BYTES) as u64;
    found
}

/// The most places that the blocks can need in `scratch`.
pub fn places_for(blocks: impl Iterator<Item = usize>) -> usize {
    blocks.map(|bytes| bytes.max(1).div_ceil(PAGE_BYTES) + 1).sum()
}

/// A block of 0 bytes still has an address, which is in some page.
fn pages_of(address: usize, bytes: usize) -> std::ops::RangeInclusive<u64> {
    let page = |address: usize| (address / PAGE_BYTES) as u64;
    page(address)..=page(address + bytes.max(1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_count(blocks: &[(usize, usize)]) -> u64 {
        let mut scratch = vec![0; places_for(blocks.iter().map(|block| block.1))];
        footprint(blocks.iter().copied(), &mut scratch).page_bytes / PAGE_BYTES as u64
    }

    #[test]
    fn blocks_of_one_page_count_it_once_in_whatever_order_they_come() {
        assert_eq!(page_count(&[(0x1000, 64), (0x1800, 64), (0x1FF0, 16)]), 1);
        assert_eq!(page_count(&[(0x1000, 64), (0x5000, 64), (0x1040, 64), (0x5040, 64)]), 2);
    }

    #[test]
    fn a_block_across_a_border_holds_both_pages() {
        assert_eq!(page_count(&[(0x1FF0, 17)]), 2);
        assert_eq!(page_count(&[(0x1FF0, 16)]), 1);
    }

    #[test]
    fn a_large_block_holds_all_its_pages() {
        assert_eq!(page_count(&[(0x1008, 4096 * 3)]), 4);
    }

    #[test]
    fn no_blocks_hold_nothing_and_an_empty_block_holds_its_page() {
        assert_eq!(page_count(&[]), 0);
        assert_eq!(page_count(&[(0x1000, 0)]), 1);
    }

    #[test]
    fn bytes_and_blocks_are_summed() {
        let found = footprint([(0x1000, 10), (0x1010, 20)].into_iter(), &mut [0; 4]);
        assert_eq!((found.blocks, found.bytes), (2, 30));
    }
}
