//! How many live blocks touch each page.

use crate::PAGE;

/// Pages by their number from the start of some range.
#[derive(Default)]
pub struct Pages {
    blocks: Vec<u32>,
    live: u64,
}

impl Pages {
    /// A block lives there now.
    pub fn add(&mut self, at: u64, bytes: u64) {
        let (first, last) = (at / PAGE, (at + bytes.max(1) - 1) / PAGE);
        if self.blocks.len() <= last as usize {
            self.blocks.resize(last as usize + 1, 0);
        }
        for blocks in &mut self.blocks[first as usize..=last as usize] {
            self.live += u64::from(*blocks == 0);
            *blocks += 1;
        }
    }

    /// It lives no more.
    pub fn remove(&mut self, at: u64, bytes: u64) {
        let (first, last) = (at / PAGE, (at + bytes.max(1) - 1) / PAGE);
        for blocks in &mut self.blocks[first as usize..=last as usize] {
            *blocks -= 1;
            self.live -= u64::from(*blocks == 0);
        }
    }

    /// Pages with a live block.
    pub fn live(&self) -> u64 {
        self.live
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
    }
}
