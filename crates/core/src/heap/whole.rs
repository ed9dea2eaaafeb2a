//! The whole heap at once: cached blocks go back to their spans, free memory to the system.

use crate::heap::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Brings everything that is cached back to its spans. For threads in slow paths.
    pub fn reclaim(&self) {
        self.obeyed(self.upkeep.reclaim(&self.below_upkeep()));
    }

    /// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes
    /// given.
    pub fn release(&self, keep: usize) -> usize {
        self.in_slow_path(|| match self.is_started() {
            true => self.obeyed(self.upkeep.release(&self.below_upkeep(), keep)),
            false => 0,
        })
        .unwrap_or(0)
    }

    /// Gives back up to `most` bytes of free memory outside spans, which nothing has to be stopped or
    /// searched for. Returns the bytes.
    pub fn release_free(&self, most: usize) -> usize {
        self.in_slow_path(|| self.upkeep.release_free(&self.below_upkeep(), most)).unwrap_or(0)
    }

    /// Brings every cached block back to its span, which finds blocks that were freed twice.
    pub fn audit(&self) {
        self.in_slow_path(|| {
            if self.is_started() {
                self.reclaim();
            }
        });
    }

    /// For the end of a process: caches nothing any more, and brings back what is cached. A block that destructors
    /// after ours free goes to its span at once, where a second free is seen at the call.
    pub fn audit_for_good(&self) {
        if self.is_started() {
            self.upkeep.close_bound(&self.below_upkeep());
        }
        self.audit();
    }
}
