//! Figures of the slabs.

use super::slab::{BIG_BASES, BIG_START, INFO_START, Info, SLAB_BYTES, small_base};
use super::tables::{EMPTY_BYTES, TABLES, WORD};
use super::{Cache, Front};
use crate::base::locks as lock;
use crate::base::place::{Places, Within};
use crate::base::sync::Ordering;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::{Mutex, Os};
use core::mem::offset_of;

/// Sums over all slabs.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CacheStats {
    pub slabs: u64,
    pub granted: u64,
    pub underflows: u64,
    pub overflows: u64,
}

impl<O: Os> Cache<O> {
    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        self.each_made(|_, slab| {
            stats.slabs += 1;
            stats.granted += slab.info().granted.load(Ordering::Relaxed) as u64;
            stats.underflows += slab.info().underflows.load(Ordering::Relaxed);
            stats.overflows += slab.info().overflows.load(Ordering::Relaxed);
        });
        stats
    }

    /// Slow paths taken since the start.
    pub fn work(&self) -> u64 {
        let stats = self.stats();
        stats.underflows + stats.overflows
    }

    /// Blocks of a class in all slabs, as far as can be seen while they change.
    pub fn cached_blocks(&self, class: SizeClass) -> u64 {
        let mut blocks = 0;
        self.each_made(|_, slab| blocks += slab.read(class).len(class) as u64);
        blocks
    }

    /// Address and bytes of the slabs and tables.
    pub fn each_mapping(&self, mut take: impl FnMut(usize, usize)) {
        let base = self.base.load(Ordering::Relaxed);
        if base != 0 {
            let slots = self.slots.load(Ordering::Relaxed);
            take(base, Self::table_bytes(slots));
        }
        self.each_made(|_, slab| take(slab.0, SLAB_BYTES));
    }
}

/// The places of these numbers, for readers outside the process (docs/design/window.md).
impl<O: Os> Cache<O> {
    /// Adds the places of a front that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let list = match Front::RING {
            Some(ring) => list.one("cache.ring", 8, at + offset_of!(Self, front) + ring),
            None => list,
        };
        let slot_bytes = TABLES * WORD + size_of::<Mutex<lock::Slab, O>>();
        list.one("cache.kind", 4, at + offset_of!(Self, kind))
            .one("cache.reason", 4, at + offset_of!(Self, reason))
            .one("cache.base", 8, at + offset_of!(Self, base))
            .one("cache.cpus", 8, at + offset_of!(Self, cpus))
            .one("cache.slots", 8, at + offset_of!(Self, slots))
            .one("cache.freezer_lock", 4, at + offset_of!(Self, freezer) + Mutex::<lock::Freezer, O>::STATE)
            // From `base` on: the tables of `slots` words, of which the second has the slabs that were made.
            .constant("cache.tables_at", EMPTY_BYTES)
            .constant("cache.slot_bytes", slot_bytes)
            .constant("slab.bytes", SLAB_BYTES)
            .constant("slab.big_arrays_at", BIG_START)
            .put("", "slab.words", Within::Slab, 8, 0, (WORD, TABLE_LEN))
            .inside(Within::Slab, "slab.granted", 8, INFO_START + offset_of!(Info, granted))
            .inside(Within::Slab, "slab.underflows", 8, INFO_START + offset_of!(Info, underflows))
            .inside(Within::Slab, "slab.overflows", 8, INFO_START + offset_of!(Info, overflows))
    }
}

/// Offsets in a slab at which the small and the big array of a class begin.
pub const fn array_bases(class: usize) -> (u32, u32) {
    (small_base(SizeClass::from_byte(class as u8)) as u32, BIG_BASES[class])
}
