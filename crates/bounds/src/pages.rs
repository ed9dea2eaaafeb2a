//! How many live blocks touch each page.

use crate::PAGE;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Pages by their number from the start of some range. Blocks do not overlap, so only the pages at the two ends of one can
/// have others: the memory is that of the blocks that live, however long they are and wherever they lie.
#[derive(Default)]
pub struct Pages {
    /// How many blocks begin or end there.
    ends: FxHashMap<u64, u32>,
    between: u64,
}

/// The first and the last page of a block.
fn ends(at: u64, bytes: u64) -> (u64, u64) {
    (at / PAGE, at.saturating_add(bytes.max(1) - 1) / PAGE)
}

impl Pages {
    /// A block lives there now.
    pub fn add(&mut self, at: u64, bytes: u64) {
        let (first, last) = ends(at, bytes);
        *self.ends.entry(first).or_default() += 1;
        if last > first {
            *self.ends.entry(last).or_default() += 1;
            self.between += last - first - 1;
        }
    }

    /// It lives no more.
    pub fn remove(&mut self, at: u64, bytes: u64) {
        let (first, last) = ends(at, bytes);
        self.end(first);
        if last > first {
            self.end(last);
            self.between -= last - first - 1;
        }
    }

    fn end(&mut self, page: u64) {
        if let Entry::Occupied(mut blocks) = self.ends.entry(page) {
            *blocks.get_mut() -= 1;
            if *blocks.get() == 0 {
                blocks.remove();
            }
        }
    }

    /// Pages with a live block.
    pub fn live(&self) -> u64 {
        self.ends.len() as u64 + self.between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_while_any_block_has_a_byte_in_it() {
        let mut pages = Pages::default();
        pages.add(4090, 10);
        assert_eq!(pages.live(), 2);
        pages.add(0, 1);
        pages.add(8191, 1);
        pages.remove(4090, 10);
        assert_eq!(pages.live(), 2);
        pages.remove(0, 1);
        pages.add(0, 0);
        assert_eq!(pages.live(), 2, "an empty block is a byte");
        pages.add(10 << 40, 1 << 40);
        assert_eq!(pages.live(), 2 + (1 << 28), "wherever it lies, it takes no memory here");
    }
}
