//! The blocks that each class holds, and the bytes of it that are in memory.

use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::Os;

/// One class in use.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClassStats {
    pub block_bytes: u64,
    pub spans: u64,
    pub live_blocks: u64,
    pub cached_blocks: u64,
    pub transfer_blocks: u64,
    pub free_blocks: u64,
    /// With the policy, which keeps freed blocks back.
    pub quarantined_blocks: u64,
}

impl<O: Os> Heap<O> {
    /// The blocks of one class; none in a signal handler that interrupted the heap.
    pub fn class_stats(&self, class: SizeClass) -> ClassStats {
        self.inside(|_| self.class_stats_inside(class)).unwrap_or_default()
    }

    #[inline(never)]
    pub(crate) fn class_stats_inside(&self, class: SizeClass) -> ClassStats {
        let middle = self.central.stats(class);
        let cached_blocks = self.cache.cached_blocks(class);
        let quarantined_blocks = self.quarantined.of(class);
        let elsewhere = middle.free_blocks + middle.transfer_blocks + cached_blocks + quarantined_blocks;
        let all = middle.spans * class.shape().blocks as u64;
        ClassStats {
            block_bytes: class.block_bytes() as u64,
            spans: middle.spans,
            live_blocks: all.saturating_sub(elsewhere),
            cached_blocks,
            transfer_blocks: middle.transfer_blocks,
            free_blocks: middle.free_blocks,
            quarantined_blocks,
        }
    }

    /// Bytes of a class's spans that are in memory.
    pub(crate) fn resident_of(&self, class: SizeClass) -> u64 {
        self.inside(|_| self.resident_inside(class)).unwrap_or(0)
    }

    #[inline(never)]
    fn resident_inside(&self, class: SizeClass) -> u64 {
        let mut bytes = 0;
        self.pages.each_span(|_, span| {
            if span.class() == class {
                bytes += self.resident(self.pages.address_of(span.start.get()), span.bytes());
            }
        });
        bytes
    }

    /// Resident bytes of a range, all of it where the system does not tell.
    #[inline(never)]
    pub(crate) fn resident(&self, start: usize, bytes: usize) -> u64 {
        self.os.resident_bytes(start, bytes).unwrap_or(bytes) as u64
    }
}
