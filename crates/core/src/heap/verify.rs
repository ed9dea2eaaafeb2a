//! What must be true of a heap while no thread works on it. For tests.

use super::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Panics where the layers contradict themselves or each other. No other thread may use the heap meanwhile.
    pub fn verify(&self) {
        if !self.is_started() {
            return;
        }
        self.pages.verify();
        let arrays = self.central.verify(&self.pages);
        let (taken, slabs) = (self.central.budget.taken(), self.cache.stats().granted as usize);
        assert_eq!(taken, arrays + slabs, "all room that was taken is in arrays and slabs");
        let cached: usize = crate::class::SizeClass::all()
            .map(|class| self.cache.cached_blocks(class) as usize * class.block_bytes())
            .sum();
        assert!(cached <= slabs, "{cached} bytes are cached in room for {slabs}");
    }

    /// Puts the heap right as in a child process: for tests, whose other threads have ended.
    ///
    /// # Safety
    /// No other thread uses the heap.
    pub unsafe fn repair_for_test(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.repair() };
    }
}
