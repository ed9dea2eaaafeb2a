//! Memory that is not free although nobody of ours has it: huge pages that lie in a gap, and units that wait.

use super::{GROUP, HUGE_PAGE_UNITS, Huge, HugePage, HugeTable, Runs};
use crate::pages::bits;

impl Runs {
    /// Passes over huge pages of the table that are lost to us. Only the first is written: the others are zero.
    pub fn add_gap(&mut self, huge: &impl HugeTable, count: u32) {
        *Self::of(huge, self.huge) = HugePage { next: count, ..HugePage::FOREIGN };
        let before = self.huge.saturating_sub(1);
        self.count_blocks(count);
        for last in [before, self.huge - 1] {
            self.renew(huge, last / GROUP, true);
        }
        self.lost += u64::from(count) * u64::from(HUGE_PAGE_UNITS);
    }

    /// Whether a huge page is not in a gap.
    pub fn is_ours(&self, huge: &impl HugeTable, number: u32) -> bool {
        Self::of(huge, number).huge != Huge::Foreign
    }

    /// How many huge pages on the next one lies that is worth a look.
    pub fn stride(&self, huge: &impl HugeTable, number: u32) -> u32 {
        let huge_page = Self::of(huge, number);
        if huge_page.huge == Huge::Foreign { huge_page.next.max(1) } else { 1 }
    }

    /// Lets the first units of a new huge page wait.
    pub fn let_wait(&mut self, huge: &impl HugeTable, number: u32, units: u32) {
        if units != 0 {
            self.remove(huge, number);
            Self::of(huge, number).free &= !bits::mask(0, units);
            self.insert(huge, number);
            self.lost += u64::from(units);
            self.waiting = (number, units);
        }
    }

    /// Makes the units free that wait; false where there are none.
    pub fn end_waiting(&mut self, huge: &impl HugeTable) -> bool {
        let (number, units) = core::mem::take(&mut self.waiting);
        if units == 0 {
            return false;
        }
        self.remove(huge, number);
        Self::of(huge, number).free |= bits::mask(0, units);
        self.insert(huge, number);
        self.lost -= u64::from(units);
        true
    }

    /// Units of a huge page that wait.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn waiting_of(&self, number: u32) -> u128 {
        let (first, units) = self.waiting;
        if units != 0 && first == number { bits::mask(0, units) } else { 0 }
    }
}
