//! The table of the huge pages, and that of their groups, which is as long as the huge pages need it.

use super::Table;
use super::runs::{GROUP, Group, HugePage, HugeTable};
use crate::os::Os;

pub struct HugePages {
    pub entries: Table<HugePage>,
    pub groups: Table<Group>,
}

// SAFETY: huge pages are reached only by the holder of `Pages::state`, and both tables are long enough for `Runs::huge pages`.
unsafe impl HugeTable for HugePages {
    fn huge_page(&self, number: u32) -> *mut HugePage {
        self.at(number as usize)
    }

    fn group(&self, number: u32) -> *mut Group {
        self.groups.at(number as usize)
    }
}

impl HugePages {
    pub const fn new() -> Self {
        HugePages { entries: Table::new(), groups: Table::new() }
    }

    pub const fn groups_for(huge: usize) -> usize {
        huge.div_ceil(GROUP as usize)
    }

    /// The entry of a huge page, which must be below what `ensure` and `pass` were asked for.
    #[inline(always)]
    pub fn at(&self, number: usize) -> *mut HugePage {
        self.entries.at(number)
    }

    /// As `Table::ensure`.
    pub fn ensure<O: Os>(&self, os: &O, huge: usize) -> bool {
        self.groups.ensure(os, Self::groups_for(huge)) && self.entries.ensure(os, huge)
    }

    /// As `Table::pass`. Groups of a gap are written: some say what lies before it.
    pub fn pass<O: Os>(&self, os: &O, huge: usize) -> bool {
        self.groups.ensure(os, Self::groups_for(huge)) && self.entries.pass(os, huge)
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
