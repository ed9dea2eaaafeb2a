//! A tracer that attaches to the probes, and what it is told; and blocks that are watched where they lie.

use crate::class::MIN_ALIGN;
use crate::heap::Heap;
use crate::os::Os;
use crate::watch::Size;

/// In an address that was left for later by `note_taken_back`: it is to be forgotten by the profile, and nothing else.
pub(crate) const FORGOTTEN: usize = 1;

impl<O: Os> Heap<O> {
    /// Whether each request is looked at: by a profile, or for a tracer.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_profiling() || self.probing.is_attached()
    }

    /// Switches samples on or off where a tracer has come or gone. The system tells nobody: whoever comes by looks.
    #[inline]
    pub(crate) fn look_at_probes(&self) {
        if self.probing.has_changed() {
            self.obey_probes();
        }
    }

    #[cold]
    #[inline(never)]
    fn obey_probes(&self) {
        if self.is_started() {
            self.probing.look();
            self.settle_sampling();
        }
    }

    /// Tells of a sample.
    pub(crate) fn announce(&self, address: usize, bytes: usize) {
        self.probing.allocated(&self.os, address, bytes, self.cache.sampling.mean());
    }

    /// A block that may be a sample is about to be freed by its owner.
    #[inline]
    pub(crate) fn note_freed(&self, address: usize) {
        self.profile.remove(address);
        self.probing.freed(address);
    }

    /// Counts a block that a policy has made, whose free will be noted by `note_taken_back`. Where it is a sample it stays the
    /// block that it is, and is written down.
    #[inline]
    pub(crate) fn note_made(&self, address: usize, bytes: usize) -> usize {
        if self.is_watched() && address != 0 && self.cache.sample_is_due(bytes) {
            self.note_sample(address, bytes);
        }
        address
    }

    #[cold]
    #[inline(never)]
    fn note_sample(&self, address: usize, bytes: usize) {
        // A handler that interrupted a slow path has emergency memory, of which nothing is written down.
        self.in_slow_path(|| {
            if self.is_profiling() {
                self.profile.add(&self.os, address, Size { bytes, counted: bytes }, &self.here());
            }
            self.announce(address, bytes);
        });
    }

    /// A block of a policy was freed, in no slow path: it may have been a sample.
    #[inline]
    pub(crate) fn note_taken_back(&self, address: usize) {
        if self.profile.may_hold(address) && self.inside(|| self.profile.remove(address)).is_none() {
            // The lock may be this thread's own, which a handler interrupted.
            self.slow_paths
                .defer(address | FORGOTTEN, |bytes| self.emergency.allocate(&self.os, bytes, MIN_ALIGN));
        }
        self.probing.freed(address);
    }
}
