//! Rows of wholly free huge pages, found in a time that hardly grows with the heap.
//!
//! A bit for each huge page, in groups of 64. Over the groups lies a binary tree whose nodes say of their range how many
//! free huge pages it begins and ends with and how many lie in a row at most, as in a segment tree for the longest run. Nodes
//! are numbered in order: node `m`, a multiple of 2^k and of no higher power, covers 2^k groups on both sides of the
//! beginning of group `m`. So the tree grows with the heap and no node moves. Huge pages behind the last one are not free.
//!
//! A huge page that becomes wholly free, or is so no more, changes one bit and the nodes above it as far as they change.

use super::{HugeTable, Runs};
use crate::pages::bits;

/// Huge pages of a group.
pub const GROUP: u32 = u64::BITS;

/// A group of huge pages, and the node of its number. All zero: nothing is free.
#[repr(C)]
pub struct Group {
    /// Bit n: the huge page is wholly free.
    free: u64,
    node: Free,
}

/// Free huge pages of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Free {
    /// At its beginning.
    before: u32,
    /// At its end.
    after: u32,
    /// In a row, at most.
    longest: u32,
}

impl Free {
    const NONE: Free = Free { before: 0, after: 0, longest: 0 };

    fn of(group: u64) -> Free {
        Free {
            before: group.trailing_ones(),
            after: group.leading_ones(),
            longest: bits::longest_run(group.into()),
        }
    }

    /// Of two ranges of so many huge pages each.
    fn join(self, next: Free, huge: u32) -> Free {
        let through = |own: u32, beyond: u32| if own == huge { own + beyond } else { own };
        Free {
            before: through(self.before, next.before),
            after: through(next.after, self.after),
            longest: self.longest.max(next.longest).max(self.after + next.before),
        }
    }
}

/// Groups on each side of a node's middle, as a power of two.
fn level_of(group: u32) -> u32 {
    group.trailing_zeros()
}

impl Runs {
    fn groups(&self) -> u32 {
        self.huge.div_ceil(GROUP)
    }

    // The exclusive right comes from the trait's promise, which the compiler cannot see.
    #[allow(clippy::mut_from_ref)]
    fn group(huge: &impl HugeTable, number: u32) -> &mut Group {
        // SAFETY: by the trait's promise; one reference lives at a time in each function below.
        unsafe { &mut *huge.group(number) }
    }

    /// Of the range of 2^`level` groups from `first` on, a multiple of that.
    fn free_in(&self, huge: &impl HugeTable, first: u32, level: u32) -> Free {
        let Some(below) = level.checked_sub(1) else {
            return if first < self.groups() { Free::of(Self::group(huge, first).free) } else { Free::NONE };
        };
        // If the heap ends before the middle, there is no node yet, and nothing is free from there on.
        match first + (1 << below) {
            middle if middle < self.groups() => Self::group(huge, middle).node,
            _ => Free { after: 0, ..self.free_in(huge, first, below) },
        }
    }

    /// The level of the range that begins with the first group and has them all.
    fn top(&self) -> u32 {
        self.groups().next_power_of_two().trailing_zeros()
    }

    /// Notes whether a huge page is wholly free.
    #[inline]
    pub(super) fn note_free(&mut self, huge: &impl HugeTable, number: u32, is_free: bool) {
        let (group, bit) = (Self::group(huge, number / GROUP), 1 << (number % GROUP));
        if (group.free & bit != 0) != is_free {
            group.free ^= bit;
            self.renew(huge, number / GROUP, false);
        }
    }

    /// Makes the nodes above a group right, up to the first that was so; with `all` those behind it too.
    pub(super) fn renew(&mut self, huge: &impl HugeTable, group: u32, all: bool) {
        for level in 0..self.top() {
            let middle = (group >> (level + 1) << (level + 1)) + (1 << level);
            if middle >= self.groups() {
                continue;
            }
            let first = middle - (1 << level);
            let [before, behind] = [first, middle].map(|first| self.free_in(huge, first, level));
            let now = before.join(behind, GROUP << level);
            let node = &mut Self::group(huge, middle).node;
            if *node == now && !all {
                return;
            }
            *node = now;
        }
    }

    /// Begins a repair: no huge page is free.
    pub(super) fn forget_free(&mut self, huge: &impl HugeTable) {
        (0..self.groups()).for_each(|group| *Self::group(huge, group) = Group { free: 0, node: Free::NONE });
    }

    /// The first of so many wholly free huge pages in a row, from one on.
    pub(super) fn free_row(&self, huge: &impl HugeTable, from: u32, count: u32) -> Option<u32> {
        let (mut group, mut start, mut length) = (from / GROUP, from, 0);
        // Of the first group what lies before does not count.
        let mut hidden = !(u64::MAX << (from % GROUP));
        let mut level = 0;
        while group < self.groups() {
            let free = match level {
                0 => Free::of(Self::group(huge, group).free & !hidden),
                level => self.free_in(huge, group, level),
            };
            if length == 0 {
                start = group * GROUP;
            }
            if length + free.before >= count && length != 0 {
                return Some(start);
            }
            if free.longest >= count {
                if level == 0 {
                    let map = Self::group(huge, group).free & !hidden;
                    return bits::find_run(map.into(), count, 1).map(|at| group * GROUP + at);
                }
                level -= 1;
                continue;
            }
            let blocks_here = GROUP << level;
            if free.before == blocks_here {
                length += blocks_here;
            } else {
                length = free.after;
                start = (group * GROUP).saturating_add(blocks_here - free.after);
            }
            group = group.checked_add(1 << level)?;
            hidden = 0;
            level = level_of(group).min(self.top());
        }
        None
    }

    /// How many huge pages at the end are wholly free.
    pub fn free_at_end(&self, huge: &impl HugeTable) -> u32 {
        let Some(last) = self.groups().checked_sub(1) else { return 0 };
        let behind = last * GROUP + GROUP - self.huge;
        let mut free = (Self::group(huge, last).free << behind).leading_ones();
        let mut group = if free == GROUP - behind { last } else { 0 };
        while group > 0 {
            let level = level_of(group);
            let here = self.free_in(huge, group - (1 << level), level).after;
            free += here;
            group = if here == GROUP << level { group - (1 << level) } else { 0 };
        }
        free
    }
}

#[cfg(any(test, feature = "fake-os"))]
impl Runs {
    /// Whether a huge page is noted as wholly free.
    pub(super) fn is_noted_free(&self, huge: &impl HugeTable, number: u32) -> bool {
        Self::group(huge, number / GROUP).free >> (number % GROUP) & 1 == 1
    }

    /// Panics where a node contradicts its groups.
    pub(super) fn verify_index(&self, huge: &impl HugeTable) {
        for middle in 1..self.groups() {
            let level = level_of(middle);
            let [before, behind] =
                [middle - (1 << level), middle].map(|first| self.free_in(huge, first, level));
            let right = before.join(behind, GROUP << level);
            assert_eq!(Self::group(huge, middle).node, right, "node {middle}");
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
