//! A tracer that attaches to the probes, and what it is told.

use crate::heap::Heap;
use crate::os::Os;

/// In an address that was left for later by `note_taken_back`: it is to be forgotten by the profile, and nothing else.
pub(crate) const FORGOTTEN: usize = 1;

impl<O: Os> Heap<O> {
    /// Whether each request is looked at: by a profile, or for a tracer.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_profiling() || self.probing.is_attached()
    }

    /// Switches samples on or off where a tracer has come or gone. The system tells nobody: passing threads look.
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
}
