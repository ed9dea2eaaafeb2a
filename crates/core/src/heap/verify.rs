//! Checks what must be true of a heap while no thread works on it. For tests.

use super::Heap;
use crate::base::locks::Rank;
use crate::os::{AnyLock, Os};

impl<O: Os> Heap<O> {
    /// Panics where the layers contradict themselves or each other. No other thread may use the heap
    /// meanwhile.
    pub fn verify(&self) {
        if !self.is_started() {
            return;
        }
        self.pages.verify();
        let arrays = self.central.verify(&self.pages);
        self.tenants.verify(&self.pages);
        let (taken, mut slabs) = (self.central.budget.taken(), self.cache.stats().granted as usize);
        self.tenants.each_cache(|cache| slabs += cache.stats().granted as usize);
        assert_eq!(taken, arrays + slabs, "all room that was taken is in arrays and slabs");
        let cached: usize = crate::class::SizeClass::all()
            .map(|class| self.cache.cached_blocks(class) as usize * class.block_bytes())
            .sum();
        assert!(cached <= slabs, "{cached} bytes are cached in room for {slabs}");
    }

    /// Ends all mappings of the heap, which is then of no use any more: a fuzzer makes a heap for every
    /// input.
    ///
    /// # Safety
    /// Nobody uses the heap or a block of it again.
    pub unsafe fn unmap_for_test(&self) {
        let mut found = [(0, 0); 256];
        let mut places = found.iter_mut();
        let mut note = |start, bytes| {
            if let Some(place) = places.next() {
                *place = (start, bytes);
            }
        };
        self.pages.each_reservation(&mut note);
        self.cache.each_mapping(&mut note);
        self.sources.emergency.each_mapping(&mut note);
        self.profile.each_reservation(&mut note);
        self.sources.guards.each_reservation(&mut note);
        self.sources.empties.each_reservation(&mut note);
        let (start, bytes) = self.probing.mapping();
        note(start, bytes);
        self.central.each_mapping(&mut note);
        self.tenants.each_reservation(&mut note);
        self.tenants.each_cache(|cache| cache.each_mapping(&mut note));
        note(self.process.address(), self.os.page_bytes());
        for (start, bytes) in found.into_iter().filter(|(start, _)| *start != 0) {
            self.os.unmap(start, bytes);
        }
    }

    /// Goes into a slow path, and stays there until the value is dropped.
    pub(crate) fn enter_for_test(&self) -> Option<impl Sized> {
        self.engine.enter_slow_path(self)
    }

    /// Takes every lock of the heap, inside a slow path, as threads that stay in the parent may have them.
    pub fn hold_for_test(&self) {
        core::mem::forget(self.enter_for_test());
        Rank::ALL.into_iter().for_each(|rank| self.each_lock(rank, &mut |lock| lock.hold()));
    }

    /// Calls `take` with all locks of a rank.
    pub fn each_lock(&self, rank: Rank, take: &mut dyn FnMut(&dyn AnyLock)) {
        let mut take = |lock: &dyn AnyLock| {
            if lock.rank() == rank {
                take(lock);
            }
        };
        take(&self.exporting);
        take(&self.starting);
        take(&self.upkeep.relieving);
        self.profile.each_lock(&mut take);
        self.sources.guards.each_lock(&mut take);
        self.cache.each_lock(&mut take);
        self.tenants.each_lock(&mut take);
        self.central.each_lock(&mut take);
        self.pages.each_lock(&mut take);
    }

    /// Does `work` as a signal handler that interrupted a slow path.
    pub fn inside_for_test(&self, work: impl FnOnce()) {
        self.inside(|_| work());
    }

    /// Puts the heap right as in a child process: for tests, whose other threads have ended.
    ///
    /// # Safety
    /// No other thread uses the heap.
    pub unsafe fn repair_for_test(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.engine.repair(self, !self.is_inside()) };
    }
}
