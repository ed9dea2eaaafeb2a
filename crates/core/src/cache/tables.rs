//! The tables of slabs, and which slab is this thread's.

use super::locked::Locked;
use super::slab::{MAPPED, SLAB_BYTES, SLAB_HEAD_BYTES, Slab, USED};
use super::slab_cache::Current;
use super::slab_cache::SlabCache;
use super::{Cache, FrontReason};
use crate::base::locks as lock;
use crate::base::round_up;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::class::TABLE_LEN;
use crate::os::{Mutex, Os, Purpose};

pub(super) const WORD: usize = size_of::<usize>();
pub(super) const EMPTY_BYTES: usize = round_up(TABLE_LEN * WORD, 64);
/// Tables with a word for each slot.
pub(super) const TABLES: usize = 3;

impl<O: Os> Cache<O> {
    pub(super) fn table_bytes(slots: usize) -> usize {
        round_up(EMPTY_BYTES + slots * (TABLES * WORD + size_of::<Mutex<lock::Slab, O>>()), 1 << 16)
    }

    fn word_at(&self, offset: usize) -> &AtomicUsize {
        let address = self.base.load(Ordering::Relaxed) + offset;
        // SAFETY: the offset lies inside the tables' mapping, which lives as long as the heap.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The slab that the sequences see: the slot's own, or the empty one while that is frozen or not made yet.
    pub(super) fn in_use(&self, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + slot * WORD)
    }

    /// The slab of a slot, 0 while it is not made yet.
    pub(super) fn made(&self, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + (self.slots.load(Ordering::Relaxed) + slot) * WORD)
    }

    /// The address of a table of nothing but empty slabs.
    pub fn empty_slabs(&self) -> usize {
        self.closed(0).as_ptr().expose_provenance()
    }

    /// That of the table which the sequences look at.
    pub fn slabs(&self) -> usize {
        self.in_use(0).as_ptr().expose_provenance()
    }

    /// The slab that the sequences see once they were switched off for good.
    pub(super) fn closed(&self, slot: usize) -> &AtomicUsize {
        self.closed_of(self.slots.load(Ordering::Relaxed), slot)
    }

    pub(super) fn closed_of(&self, slots: usize, slot: usize) -> &AtomicUsize {
        self.word_at(EMPTY_BYTES + (2 * slots + slot) * WORD)
    }

    pub(super) fn lock_of(&self, slot: usize) -> &Mutex<lock::Slab, O> {
        let tables = EMPTY_BYTES + TABLES * self.slots.load(Ordering::Relaxed) * WORD;
        let address = self.base.load(Ordering::Relaxed) + tables + slot * size_of::<Mutex<lock::Slab, O>>();
        // SAFETY: as in `word_at`; a zeroed mutex is a free one.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// The slot that this thread should use now.
    pub(super) fn slot(&self) -> usize {
        if let Some(cpu) = self.behind.current() {
            return cpu;
        }
        let cpus = self.cpus.load(Ordering::Relaxed);
        let under_locks = self.slots.load(Ordering::Relaxed).saturating_sub(cpus).max(1);
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): thread control blocks lie at regular distances.
        let hash = (O::thread_id() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        cpus + hash % under_locks
    }

    /// A number that threads on different CPUs seldom share.
    pub fn place(&self) -> usize {
        self.slot()
    }

    /// Calls `act` with this thread's cache; without one if its slab is frozen or cannot be made.
    pub(super) fn with_slab_cache<R>(&self, os: &O, act: impl FnOnce(Option<&dyn SlabCache>) -> R) -> R {
        if self.slots.load(Ordering::Acquire) == 0 {
            return act(None);
        }
        let mut slot = self.slot();
        // A thread that nobody has registered yet: its first slow path, or one under a lock.
        if slot >= self.cpus.load(Ordering::Relaxed) && self.behind.is_on() && os.enter_sequences() {
            slot = self.slot();
        }
        if self.made(slot).load(Ordering::Acquire) == 0 {
            self.make(os, slot);
        }
        let slab = self.in_use(slot).load(Ordering::Acquire);
        if slab == self.base.load(Ordering::Relaxed) {
            act(None)
        } else if slot < self.cpus.load(Ordering::Relaxed) {
            act(Some(&Current { front: &self.behind, slab: Slab(slab) }))
        } else {
            act(Some(&Locked { slab: Slab(slab), lock: self.lock_of(slot) }))
        }
    }

    pub(super) fn make(&self, os: &O, slot: usize) {
        // Not waited for: its holder may be emptying caches, and without a CPU. Until the next miss the middle serves.
        let Some(_held) = self.freezer.try_lock() else { return };
        if self.made(slot).load(Ordering::Relaxed) != 0 || self.is_retired.load(Ordering::Relaxed) {
            return;
        }
        let Some((slab, is_whole)) = os.reserve_with_head(SLAB_BYTES, SLAB_HEAD_BYTES) else { return };
        os.name_pages(slab, SLAB_BYTES, Purpose::Tables);
        // Of a slab some pages are written to, of most arrays none: it would hold 2 MiB, on each CPU, if each touched
        // block became a huge page.
        os.forbid_huge_pages(slab, SLAB_BYTES);
        if is_whole {
            Slab(slab).info().big.store(MAPPED, Ordering::Relaxed);
        }
        if slot < self.cpus.load(Ordering::Relaxed) {
            let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
            if seen > self.sharers.load(Ordering::Relaxed) {
                self.is_share_settled.store(false, Ordering::Relaxed);
            }
        }
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            Slab(slab).set_owner(owner);
        }
        // Release pairs with the Acquire in `with_slab_cache`: a slab is seen mapped.
        self.made(slot).store(slab, Ordering::Release);
        self.in_use(slot).store(slab, Ordering::Release);
    }

    /// Calls `take` with the number of each slot that has a slab.
    pub(super) fn each_made(&self, mut take: impl FnMut(usize, Slab)) {
        for slot in 0..self.slots.load(Ordering::Acquire) {
            let slab = self.made(slot).load(Ordering::Acquire);
            if slab != 0 {
                take(slot, Slab(slab));
            }
        }
    }

    /// Makes the big arrays of a slab usable, when a class needs more than its small one.
    pub(super) fn has_big_arrays(&self, os: &O, slab: Slab) -> bool {
        let big = &slab.info().big;
        let state = big.load(Ordering::Acquire);
        if state == USED {
            return true;
        }
        if state != MAPPED {
            let Some(_held) = self.freezer.try_lock() else { return false };
            // With the head, which has memory already: a system with longer pages has none that begins where it ends.
            if !os.commit(slab.0, SLAB_BYTES) {
                return false;
            }
        }
        // Release pairs with the Acquire above: they are seen mapped.
        big.store(USED, Ordering::Release);
        true
    }

    /// This thread's cache, if it is one under a lock.
    #[inline]
    pub(super) fn locked(&self) -> Option<Locked<'_, O>> {
        if self.slots.load(Ordering::Acquire) == 0 || self.behind.current().is_some() {
            return None;
        }
        if self.reason() == FrontReason::Own {
            // It may only not be registered yet: `with_slab_cache` sees to that.
            return None;
        }
        let slot = self.slot();
        let slab = self.in_use(slot).load(Ordering::Acquire);
        if slot < self.cpus.load(Ordering::Relaxed) || slab == self.base.load(Ordering::Relaxed) {
            return None;
        }
        Some(Locked { slab: Slab(slab), lock: self.lock_of(slot) })
    }
}
