//! Memory that is not free although nobody of ours has it: blocks that lie in a gap, and units that wait.

use super::{BLOCK_UNITS, Block, Blocks, GROUP, Huge, Runs};
use crate::pages::bits;

impl Runs {
    /// Passes over blocks of the table that are lost to us. Only the first is written: the others are zero.
    pub fn add_gap(&mut self, blocks: &impl Blocks, count: u32) {
        *Self::of(blocks, self.blocks) = Block { next: count, ..Block::FOREIGN };
        let before = self.blocks.saturating_sub(1);
        self.count_blocks(count);
        for last in [before, self.blocks - 1] {
            self.renew(blocks, last / GROUP, true);
        }
        self.lost += u64::from(count) * u64::from(BLOCK_UNITS);
    }

    /// Whether a block is not in a gap.
    pub fn is_ours(&self, blocks: &impl Blocks, number: u32) -> bool {
        Self::of(blocks, number).huge != Huge::Foreign
    }

    /// How many blocks on the next one lies that is worth a look.
    pub fn stride(&self, blocks: &impl Blocks, number: u32) -> u32 {
        let block = Self::of(blocks, number);
        if block.huge == Huge::Foreign { block.next.max(1) } else { 1 }
    }

    /// Lets the first units of a new block wait.
    pub fn let_wait(&mut self, blocks: &impl Blocks, number: u32, units: u32) {
        if units != 0 {
            self.remove(blocks, number);
            Self::of(blocks, number).free &= !bits::mask(0, units);
            self.insert(blocks, number);
            self.lost += u64::from(units);
            self.waiting = (number, units);
        }
    }

    /// Makes the units free that wait; false where there are none.
    pub fn end_waiting(&mut self, blocks: &impl Blocks) -> bool {
        let (number, units) = core::mem::take(&mut self.waiting);
        if units == 0 {
            return false;
        }
        self.remove(blocks, number);
        Self::of(blocks, number).free |= bits::mask(0, units);
        self.insert(blocks, number);
        self.lost -= u64::from(units);
        true
    }

    /// Units of a block that wait.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn waiting_of(&self, number: u32) -> u128 {
        let (first, units) = self.waiting;
        if units != 0 && first == number { bits::mask(0, units) } else { 0 }
    }
}
