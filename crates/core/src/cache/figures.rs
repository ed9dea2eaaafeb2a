//! Figures of the slabs.

use super::Cache;
use super::slab::SLAB_BYTES;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::Os;

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
