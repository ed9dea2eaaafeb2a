//! The places of the tables and the heap in the range of addresses that was found.
//!
//! Nothing of it is reserved: each grows from its beginning, and none can reach the next.

use super::huge_pages::HugePages;
use super::runs::{Group, HugePage};
use super::table::STEP_BYTES;
use super::{ALLOCATED_PER_UNIT, HUGE_PAGE_BYTES, MARKS_PER_UNIT, Pages, Span, Table};
use crate::base::relaxed::RelaxedCell;
use crate::base::round_up;
use crate::base::sync::{AtomicU8, AtomicU32};
use crate::class::UNIT_SHIFT;
use crate::os::Os;

/// Between two tables nothing is ever mapped.
const GAP_BYTES: usize = 1 << 20;
/// The heap lies behind its tables, so much farther at most: the address of the one does not tell the other.
const MOST_BETWEEN: usize = 64 << 30;
const _: () = assert!(GAP_BYTES.is_multiple_of(STEP_BYTES));

/// Descriptors for a range of so many units: one for each where that is cheap, and for larger ranges enough
/// to fill all of memory with the smallest spans (the range is eight times as long, see
/// `Os::address_budget`).
const fn spans_for(units: usize) -> usize {
    const CHEAP: usize = 1 << 20;
    if units <= CHEAP {
        units
    } else if units / 8 > CHEAP {
        units / 8
    } else {
        CHEAP
    }
}

/// How much of everything there may be.
pub(super) struct Layout {
    blocks: usize,
    units: usize,
    spans: usize,
    between: usize,
    /// The length of the whole.
    pub bytes: usize,
}

impl Layout {
    /// For a heap of `most` bytes in a range of `bytes`.
    pub fn of(bytes: usize, most: usize) -> Layout {
        let spans = spans_for(most >> UNIT_SHIFT);
        // Not more than a sixteenth of a short range.
        let between = MOST_BETWEEN.min(round_up(bytes / 16, HUGE_PAGE_BYTES));
        let mut layout =
            Layout { blocks: bytes / HUGE_PAGE_BYTES, units: bytes >> UNIT_SHIFT, spans, between, bytes: 0 };
        layout.bytes = layout.heap_at() + between + bytes;
        layout
    }

    /// Lays the tables out from an address on; returns where the heap begins.
    pub fn place<O: Os>(&self, pages: &Pages<O>, address: usize, random: u64) -> usize {
        let mut at = address;
        let mut next = |bytes: usize| {
            at += bytes + GAP_BYTES;
            at - bytes - GAP_BYTES
        };
        let [marks, classes, blocks, groups, candidates, owners, spans, allocated] = self.lengths();
        pages.marks.start_at(next(marks), self.units * MARKS_PER_UNIT);
        pages.classes.start_at(next(classes), self.units);
        pages.huge.entries.start_at(next(blocks), self.blocks);
        pages.huge.groups.start_at(next(groups), HugePages::groups_for(self.blocks));
        pages.candidates.start_at(next(candidates), self.spans);
        pages.owners.start_at(next(owners), self.units);
        pages.spans.start_at(next(spans), self.spans);
        pages.allocated.start_at(next(allocated), self.units * ALLOCATED_PER_UNIT);
        let between = (random >> 8) as usize % (self.between / HUGE_PAGE_BYTES).max(1) * HUGE_PAGE_BYTES;
        address + self.heap_at() + between
    }

    /// The short tables beside each other: tables that begin within a GiB share a page of the page table.
    fn lengths(&self) -> [usize; 8] {
        [
            Table::<AtomicU8>::bytes_for(self.units * MARKS_PER_UNIT),
            Table::<AtomicU8>::bytes_for(self.units),
            Table::<HugePage>::bytes_for(self.blocks),
            Table::<Group>::bytes_for(HugePages::groups_for(self.blocks)),
            Table::<RelaxedCell<u8>>::bytes_for(self.spans),
            Table::<AtomicU32>::bytes_for(self.units),
            Table::<Span>::bytes_for(self.spans),
            Table::<AtomicU32>::bytes_for(self.units * ALLOCATED_PER_UNIT),
        ]
    }

    fn heap_at(&self) -> usize {
        round_up(self.lengths().iter().map(|bytes| bytes + GAP_BYTES).sum(), HUGE_PAGE_BYTES)
    }
}
