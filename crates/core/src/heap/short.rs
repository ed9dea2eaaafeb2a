//! The short ways past the fast path: into a cache, with no lock of the heap.

use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::Os;
use crate::policy::Leaving;

impl<O: Os> Heap<O> {
    /// A cached block by a way that needs no lock of the heap; 0 where there is none.
    #[inline]
    pub(crate) fn pop_short(&self, class: SizeClass) -> usize {
        let is_watched = self.cache.sampling.counts_each() || self.recording.is_on();
        let block = if is_watched { self.cache.pop_behind(class) } else { self.cache.pop_locked(class) };
        self.keys.leave(class, Leaving::new(block))
    }

    /// Puts a small block into the cache by a way that needs no lock of the heap; false where there is none.
    #[inline]
    pub(crate) fn free_short(&self, address: usize) -> bool {
        let push = |class| self.keys.arrive(class, address, || self.cache.push_behind(class, address));
        let is_put = |class: SizeClass| class.is_small() && push(class);
        !self.is_aborting() && self.pages.class_of_allocated(address).is_some_and(is_put)
    }
}
