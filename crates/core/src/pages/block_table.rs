//! The table of the 2 MiB blocks, and that of their groups, which is as long as the blocks need it.

use super::Table;
use super::runs::{Block, Blocks, GROUP, Group};
use crate::os::Os;

pub struct BlockTable {
    pub entries: Table<Block>,
    pub groups: Table<Group>,
}

// SAFETY: blocks are reached only by the holder of `Pages::state`, and both tables are long enough for `Runs::blocks`.
unsafe impl Blocks for BlockTable {
    fn block(&self, number: u32) -> *mut Block {
        self.at(number as usize)
    }

    fn group(&self, number: u32) -> *mut Group {
        self.groups.at(number as usize)
    }
}

impl BlockTable {
    pub const fn new() -> Self {
        BlockTable { entries: Table::new(), groups: Table::new() }
    }

    pub const fn groups_for(blocks: usize) -> usize {
        blocks.div_ceil(GROUP as usize)
    }

    /// The entry of a block, which must be below what `ensure` and `pass` were asked for.
    #[inline(always)]
    pub fn at(&self, number: usize) -> *mut Block {
        self.entries.at(number)
    }

    /// As `Table::ensure`.
    pub fn ensure<O: Os>(&self, os: &O, blocks: usize) -> bool {
        self.groups.ensure(os, Self::groups_for(blocks)) && self.entries.ensure(os, blocks)
    }

    /// As `Table::pass`. Groups of a gap are written: some say what lies before it.
    pub fn pass<O: Os>(&self, os: &O, blocks: usize) -> bool {
        self.groups.ensure(os, Self::groups_for(blocks)) && self.entries.pass(os, blocks)
    }

    /// Bytes of both tables.
    pub fn lengths(&self) -> [usize; 2] {
        [self.entries.range().1, self.groups.range().1]
    }

    /// As `Table::cut`.
    pub fn cut<O: Os>(&self, os: &O, [entries, groups]: [usize; 2]) {
        self.entries.cut(os, entries);
        self.groups.cut(os, groups);
    }

    pub fn stop<O: Os>(&self, os: &O) {
        self.entries.stop(os);
        self.groups.stop(os);
    }

    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}
