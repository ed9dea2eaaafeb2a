//! Bringing back what is cached, and giving back what is free.

use super::{Floors, Upkeep};
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::base::ticks::Ticks;
use crate::class::SizeClass;
use crate::os::Os;

/// A span wastes at most a 64th of itself.
const WASTED_PART: usize = 32;

impl<O: Os> Upkeep<O> {
    /// Brings everything that is cached back to its spans.
    #[inline(never)]
    pub fn drain_everything(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if !floors.cache.drain(&floors.store)? | !floors.tenants.drain_caches(&floors.store)? {
            self.fences_refused.fetch_add(1, Ordering::Relaxed);
        }
        for class in SizeClass::all() {
            floors.central.drain(&floors.pages, class, usize::MAX)?;
            floors.central.forget_array(&floors.os, class, Ticks(0));
        }
        floors.large.audit(&floors.pages)
    }

    /// Whether a large block that was refused could be had if everything came back that can. If it cannot, that would
    /// cost the next small blocks their caches and their pages for nothing.
    pub fn could_help(&self, floors: &Floors<O>, bytes: usize, align: usize) -> bool {
        if self.has_ended(floors) {
            return true;
        }
        let stats = floors.pages.stats();
        let in_spans = (stats.used - stats.large.bytes.min(stats.used)) as usize;
        let could_have = |more| floors.pages.could_have(bytes, align, more);
        could_have(in_spans) && could_have(self.free_in_small(floors).min(in_spans))
    }

    /// Bytes of spans that free blocks of classes lie in, wherever those are, and what is wasted beside them.
    fn free_in_small(&self, floors: &Floors<O>) -> usize {
        let cached = |class: SizeClass| {
            let blocks = floors.cache.cached_blocks(class) + floors.central.stats(class).transfer_blocks;
            blocks as usize * class.block_bytes()
        };
        let blocks = floors.central.free_in_spans() + SizeClass::all().map(cached).sum::<usize>();
        blocks + blocks / WASTED_PART
    }

    /// Gives back the idle pages of all spans that nobody touched for `ticks`. Returns the bytes.
    #[inline(never)]
    pub(super) fn subrelease_spans(&self, floors: &Floors<O>, ticks: Ticks) -> usize {
        let tidy = |id| floors.subrelease(id, ticks);
        floors.pages.candidates_in(0..floors.pages.span_count()).map(tidy).sum()
    }

    /// Releases what no block needs; returns the bytes.
    pub fn release_idle(&self, floors: &Floors<O>) -> usize {
        let released =
            self.subrelease_spans(floors, Ticks(0)) + floors.pages.release(&floors.os, 0, Ticks(0));
        self.count_released(released);
        released
    }

    /// Brings everything back that can come back, now; returns the bytes that went to the system.
    #[inline(never)]
    pub fn relieve(&self, floors: &Floors<O>) -> Result<usize, Misuse> {
        self.close_all_ended(floors);
        self.drain_everything(floors)?;
        Ok(self.release_idle(floors))
    }

    /// Brings everything back that can come back, but `keep` bytes of whole free units: spans' idle pages have no keeper.
    pub fn release(&self, floors: &Floors<O>, keep: usize) -> Result<usize, Misuse> {
        self.close_all_ended(floors);
        self.drain_everything(floors)?;
        Ok(self.subrelease_spans(floors, Ticks(0)) + floors.pages.release(&floors.os, keep, Ticks(0)))
    }

    /// Releases up to `most` bytes of free memory outside spans, which nothing has to be stopped or searched for;
    /// returns the bytes.
    pub fn release_free(&self, floors: &Floors<O>, most: usize) -> usize {
        let free = floors.pages.dirty_free_bytes();
        if free == 0 {
            return 0;
        }
        let released = floors.pages.release(&floors.os, free.saturating_sub(most), Ticks(0));
        self.count_released(released);
        released
    }
}
