//! How much of what the heap gave out is with a policy, which keeps freed blocks back for a while.

use crate::base::place::Places;
use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use crate::class::{SizeClass, TABLE_LEN};
use crate::heap::Heap;
use crate::os::Os;
use core::mem::offset_of;

/// Changed only where a block comes for which none leaves: not by the usual free.
pub struct Quarantined {
    /// By class.
    blocks: [AtomicU32; TABLE_LEN],
    large_blocks: AtomicU64,
    large_bytes: AtomicU64,
    large_requested: AtomicU64,
}

/// Figures of the large blocks in quarantine.
#[derive(Clone, Copy, Default)]
pub struct LargeQuarantined {
    pub blocks: u64,
    pub bytes: u64,
    pub requested: u64,
}

impl Quarantined {
    pub const fn new() -> Self {
        Quarantined {
            blocks: [const { AtomicU32::new(0) }; TABLE_LEN],
            large_blocks: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
            large_requested: AtomicU64::new(0),
        }
    }

    /// One more, or one fewer, of a class.
    pub fn count(&self, class: SizeClass, comes: bool) {
        let Some(blocks) = self.blocks.get(class.index()) else { return };
        blocks.fetch_add(if comes { 1 } else { u32::MAX }, Ordering::Relaxed);
    }

    pub fn of(&self, class: SizeClass) -> u64 {
        let blocks = self.blocks.get(class.index()).map_or(0, |blocks| blocks.load(Ordering::Relaxed));
        // A block may be counted out before it is counted in, by another thread.
        u64::from(if blocks > i32::MAX as u32 { 0 } else { blocks })
    }

    pub fn large(&self) -> LargeQuarantined {
        let [blocks, bytes, requested] = [&self.large_blocks, &self.large_bytes, &self.large_requested]
            .map(|number| u64::try_from(number.load(Ordering::Relaxed) as i64).unwrap_or(0));
        LargeQuarantined { blocks, bytes, requested }
    }

    /// Adds the places of its numbers; `at` is where it lies in the heap.
    pub const fn places(list: Places, at: usize) -> Places {
        list.many("class.quarantined", 4, at + offset_of!(Self, blocks), (4, TABLE_LEN))
            .one("large.quarantined_blocks", 8, at + offset_of!(Self, large_blocks))
            .one("large.quarantined_bytes", 8, at + offset_of!(Self, large_bytes))
            .one("large.quarantined_requested", 8, at + offset_of!(Self, large_requested))
    }
}

impl<O: Os> Heap<O> {
    /// Counts a large block that a policy keeps back, or gives free again; it must be the policy's.
    pub(crate) fn count_large_quarantined(&self, address: usize, comes: bool) {
        let Some(id) = self.pages.span_of(address) else { return };
        if self.tenants.has_any() {
            self.tenants.note_waiting(&self.pages, address, comes);
        }
        let span = self.pages.span(id);
        let (units, requested) = (u64::from(span.units.get()), span.requested.get() as u64);
        let Quarantined { large_blocks, large_bytes, large_requested, .. } = &self.quarantined;
        for (number, by) in [
            (large_blocks, 1),
            (large_bytes, units * crate::class::UNIT_BYTES as u64),
            (large_requested, requested),
        ] {
            number.fetch_add(if comes { by } else { by.wrapping_neg() }, Ordering::Relaxed);
        }
    }
}
