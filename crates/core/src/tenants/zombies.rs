//! Heaps that have ended although blocks of theirs are with the program, which promised to do nothing with them but free them.
//!
//! A policy that can tell a late access closes their memory; then no block comes back to a span, and the heap goes with the last
//! late free.

use super::{DRAINING, HeapId, Tenant, Tenants};
use crate::base::sync::Ordering;
use crate::os::Os;

/// More blocks than there are: until it is known how many are left.
const UNKNOWN: u64 = 1 << 63;
/// A thread ends it.
const CLAIMED: u64 = 3 << 62;

impl<O: Os> Tenants<O> {
    /// Makes a heap that drains a zombie: from now on `is_zombie`. False where it is gone.
    pub fn condemn(&self, id: HeapId) -> bool {
        let Some(tenant) = self.find(id).filter(|tenant| tenant.state.load(Ordering::Acquire) == DRAINING)
        else {
            return false;
        };
        tenant.left.store(UNKNOWN, Ordering::Relaxed);
        // SeqCst: the policy looks for those who were in its blocks before after this, and they look here after they said so.
        tenant.zombie.store(true, Ordering::SeqCst);
        true
    }

    pub fn is_zombie(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| tenant.zombie.load(Ordering::SeqCst))
    }

    /// Says how many blocks a zombie had when it became one; true where all of them were freed since.
    pub fn expect_late(&self, id: HeapId, blocks: u64) -> bool {
        self.find(id).is_some_and(|tenant| {
            let unknown = UNKNOWN.wrapping_sub(blocks);
            tenant.left.fetch_sub(unknown, Ordering::AcqRel) == unknown
        })
    }

    /// Takes the end of a zombie over whose last block was freed; false where another thread did.
    pub fn claim_last(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| {
            tenant.left.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// The same, whatever of it is left.
    pub fn claim(&self, id: HeapId) -> bool {
        let claimed = |left: u64| (left < UNKNOWN / 2).then_some(CLAIMED);
        self.find(id).is_some_and(|tenant| {
            tenant.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, claimed).is_ok()
        })
    }

    /// Counts a late free of a zombie's block; true where it was the last.
    pub fn note_late(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| {
            tenant.late.fetch_add(1, Ordering::Relaxed);
            tenant.left.fetch_sub(1, Ordering::AcqRel) == 1
        })
    }
}

impl<O: Os> Tenant<O> {
    /// How many blocks of a zombie were not freed yet, where that is known.
    pub(super) fn left_of_zombie(&self) -> Option<u64> {
        let left = self.left.load(Ordering::Relaxed);
        (self.zombie.load(Ordering::Relaxed) && left < UNKNOWN / 2).then_some(left)
    }
}
