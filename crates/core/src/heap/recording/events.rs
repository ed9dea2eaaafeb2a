//! The events of a call: one behind an allocation, one before a free, and two for a realloc, as the tool's own recorder
//! tells it.

use crate::heap::Heap;
use crate::os::Os;
use crate::watch::layout::{Kind, LOW};

impl<O: Os> Heap<O> {
    /// A block was allocated, if it was.
    #[inline(always)]
    pub(crate) fn begun(&self, kind: Kind, block: usize, bytes: usize, align: usize) -> usize {
        if self.recording.is_on() {
            self.record_begin(kind, block, bytes, align);
        }
        block
    }

    /// A block is about to be freed.
    #[inline(always)]
    pub(crate) fn ends(&self, address: usize) {
        if self.recording.is_on() && address != 0 && self.recording.is_sampled(address) {
            self.record(Kind::Free, address, 0);
        }
    }

    /// A block is resized, and may move.
    #[inline(always)]
    pub(crate) fn resized(
        &self,
        address: usize,
        align: usize,
        bytes: usize,
        resize: impl Fn() -> usize,
    ) -> usize {
        if self.recording.is_on() { self.record_resize(address, align, bytes, &resize) } else { resize() }
    }

    #[cold]
    #[inline(never)]
    fn record_begin(&self, kind: Kind, block: usize, bytes: usize, align: usize) {
        if block != 0 && self.recording.is_sampled(block) {
            let log2 = u64::from(align.checked_ilog2().unwrap_or(0));
            self.record(kind, block, log2 << 56 | bytes as u64 & LOW);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_resize(&self, address: usize, align: usize, bytes: usize, resize: &dyn Fn() -> usize) -> usize {
        let size = bytes as u64 & LOW;
        let is_told = address != 0 && self.recording.is_sampled(address);
        if is_told {
            self.record(Kind::ReallocFrom, address, size);
        }
        let block = resize();
        if is_told {
            let kind = match block {
                0 => Kind::ReallocFailed,
                _ if self.recording.is_sampled(block) => Kind::ReallocTo,
                _ => Kind::ReallocAway,
            };
            self.record(kind, block, size);
        } else {
            let kind = if align > crate::class::MIN_ALIGN { Kind::Aligned } else { Kind::Malloc };
            self.record_begin(kind, block, bytes, align);
        }
        block
    }

    /// A block got another size where it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_in_place(&self, address: usize, bytes: usize) {
        if self.recording.is_sampled(address) {
            self.record(Kind::ReallocFrom, address, bytes as u64 & LOW);
            self.record(Kind::ReallocTo, address, bytes as u64 & LOW);
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&self, kind: Kind, address: usize, size: u64) {
        if !self.recording.put(&self.os, self.cache.place(), kind, address, size) {
            self.see_to_recording();
        }
    }

    /// Nobody is heard of any more: it ends. A signal handler leaves that to the next event.
    #[cold]
    #[inline(never)]
    fn see_to_recording(&self) {
        self.inside(|| {
            self.orders.alone(|| {
                if self.recording.is_on() && self.recording.is_over(&self.os) {
                    self.end_recording();
                }
            });
        });
    }
}
