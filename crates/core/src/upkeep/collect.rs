//! Bringing back what is cached, and giving back what is free.

use super::{Below, Upkeep};
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
    pub fn drain_everything(&self, below: &Below<'_, O>) -> Result<(), Misuse> {
        if !below.cache.drain(below.of_cache())? {
            self.fences_refused.fetch_add(1, Ordering::Relaxed);
        }
        for class in SizeClass::all() {
            below.central.drain(below.pages, class, usize::MAX)?;
            below.central.forget_array(below.os, class, Ticks(0));
        }
        below.large.audit(below.pages)
    }

    /// Whether a large block that was refused could be had if everything came back that can. If it cannot, that would
    /// cost the next small blocks their caches and their pages for nothing.
    pub fn could_help(&self, below: &Below<'_, O>, bytes: usize, align: usize) -> bool {
        let stats = below.pages.stats();
        let in_spans = (stats.used - stats.large.bytes.min(stats.used)) as usize;
        let could_have = |more| below.pages.could_have(bytes, align, more);
        could_have(in_spans) && could_have(self.free_in_small(below).min(in_spans))
    }

    /// Bytes of spans that free blocks of classes lie in, wherever those are, and what is wasted beside them.
    fn free_in_small(&self, below: &Below<'_, O>) -> usize {
        let cached = |class: SizeClass| {
            let blocks = below.cache.cached_blocks(class) + below.central.stats(class).transfer_blocks;
            blocks as usize * class.block_bytes()
        };
        let blocks = below.central.free_in_spans() + SizeClass::all().map(cached).sum::<usize>();
        blocks + blocks / WASTED_PART
    }

    /// Gives back the idle pages of all spans that nobody touched for `ticks`. Returns the bytes.
    #[inline(never)]
    pub(super) fn subrelease_spans(&self, below: &Below<'_, O>, ticks: Ticks) -> usize {
        let tidy = |id| below.central.subrelease(below.os, below.pages, id, ticks);
        below.pages.candidates_in(0..below.pages.span_count()).map(tidy).sum()
    }

    /// Releases what no block needs; returns the bytes.
    pub fn release_idle(&self, below: &Below<'_, O>) -> usize {
        let released = self.subrelease_spans(below, Ticks(0)) + below.pages.release(below.os, 0, Ticks(0));
        self.count_released(released);
        released
    }

    /// Brings everything back that can come back, now; returns the bytes that went to the system.
    #[inline(never)]
    pub fn relieve(&self, below: &Below<'_, O>) -> Result<usize, Misuse> {
        self.drain_everything(below)?;
        Ok(self.release_idle(below))
    }

    /// Brings everything back that can come back, but `keep` bytes of whole free units: spans' idle pages have no keeper.
    pub fn release(&self, below: &Below<'_, O>, keep: usize) -> Result<usize, Misuse> {
        self.drain_everything(below)?;
        Ok(self.subrelease_spans(below, Ticks(0)) + below.pages.release(below.os, keep, Ticks(0)))
    }

    /// Releases up to `most` bytes of free memory outside spans, which nothing has to be stopped or searched for;
    /// returns the bytes.
    pub fn release_free(&self, below: &Below<'_, O>, most: usize) -> usize {
        let free = below.pages.dirty_free_bytes();
        if free == 0 {
            return 0;
        }
        let released = below.pages.release(below.os, free.saturating_sub(most), Ticks(0));
        self.count_released(released);
        released
    }
}
