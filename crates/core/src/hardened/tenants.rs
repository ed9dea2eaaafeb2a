//! Heaps of tenants under the policy: their blocks have frames, marks and guards as all have.
//!
//! They wait in a quarantine of their own, so that what leaves the other one is always the process's, and go back by the
//! ordinary way. A heap that ends is freed block by block: a write beside one of them is found then.

use super::Hardened;
use super::frame::FRONT;
use super::inspect::fronts;
use crate::base::Fresh;
use crate::base::fault::Misuse;
use crate::class::SizeClass;
use crate::heap::{Ending, HeapId, Refusal};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::allocate_in`.
    pub(super) fn make_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        if id != HeapId::OWN && !self.heap.is_heap(id) {
            return Err(Refusal::Gone);
        }
        Some(self.allocate_of(id, align, bytes)).filter(|block| *block != 0).ok_or(Refusal::Memory)
    }

    /// The heap that a block of it is replaced in.
    pub(super) fn heap_of_block(&self, address: usize) -> HeapId {
        self.heap.owner_heap(address).unwrap_or(HeapId::OWN)
    }

    /// Memory of a class, or without one a run, of a tenant's heap; none inside.
    pub(super) fn memory_of_tenant(
        &self,
        id: HeapId,
        class: Option<SizeClass>,
        bytes: usize,
        align: usize,
    ) -> Option<Result<Fresh, Refusal>> {
        // Blocks that wait in quarantine may be what is missing.
        let relieve = || {
            self.empty_quarantine_of_tenants();
            true
        };
        self.heap.memory_in(id, class, bytes, align, relieve)
    }

    /// Puts a small block of a tenant's heap, which was cleared, into quarantine.
    pub(super) fn let_wait_of_tenant(&self, start: usize, class: SizeClass) -> Result<(), Misuse> {
        let leaving = self.of_tenants.exchange(&self.heap.os, &self.heap.cache.front, class, start);
        if leaving == 0 {
            self.heap.quarantined.count(class, true);
            return Ok(());
        }
        self.is_untouched(leaving, class)?;
        self.heap.os.unseen(|| self.heap.free(leaving));
        Ok(())
    }

    pub(super) fn empty_quarantine_of_tenants(&self) {
        self.of_tenants.empty(&self.heap.os, |start| self.leave_quarantine(start));
        self.empty_runs_of_tenants();
    }

    /// `Blocks::end_heap`.
    pub(super) fn finish_heap(&self, id: HeapId, how: Ending) -> Result<(), Refusal> {
        let is_zombie = self.heap.tenants.is_zombie(id);
        match how {
            Ending::FreeAll if is_zombie => self.bury(id),
            // Nobody could use the blocks.
            _ if is_zombie => Err(Refusal::Gone),
            Ending::HandOver | Ending::Drain => self.heap.end_heap(id, how),
            Ending::Zombie => {
                self.heap.end_heap(id, how)?;
                self.condemn(id);
                Ok(())
            }
            Ending::FreeAll => {
                let before = self.heap.heap_stats(id).ok_or(Refusal::Gone)?;
                if !before.is_draining {
                    self.heap.end_heap(id, Ending::Drain)?;
                }
                self.free_all_of(id);
                self.heap.settle_end(before.bytes as usize);
                Ok(())
            }
        }
    }

    /// `Blocks::reset_heap`.
    pub(super) fn empty_heap(&self, id: HeapId) -> Result<(), Refusal> {
        if !self.heap.tenants.is_live(id) {
            return Err(Refusal::Gone);
        }
        self.free_all_of(id);
        Ok(())
    }

    /// Frees each block of a heap, as its owner would.
    fn free_all_of(&self, id: HeapId) {
        self.each_live_of(id, |user, _| {
            let taken = self.inspect(user).and_then(|live| self.take(&live));
            // Others may free it too, and say so.
            if taken.is_err() && self.state_of(user).is_live() {
                self.heap.obeyed(taken);
            }
        });
        self.empty_quarantine_of_tenants();
    }

    /// Calls `take` with each block of a heap that is in use, and its bytes.
    pub(super) fn each_live_of(&self, id: HeapId, mut take: impl FnMut(usize, usize)) {
        let is_zombie = self.heap.tenants.is_zombie(id);
        self.heap.each_block_of(id, |start, bytes| {
            let Some(user) = self.live_between(start, start + bytes) else { return };
            if self.heap.owner_heap(user) != Some(id) {
            } else if is_zombie {
                take(user, start + bytes - user);
            } else if let Ok(live) = self.inspect(user) {
                take(user, live.frame.bytes);
            } else if self.state_of(user).is_live() {
                // Its frame is lost: the next free says so.
                take(user, 0);
            }
        });
    }

    /// The live block in the memory of one.
    pub(super) fn live_between(&self, start: usize, end: usize) -> Option<usize> {
        let is_live = |user: &usize| *user < end && self.state_of(*user).is_live();
        if self.heap.pages.class_of_block(start).is_small() {
            return fronts().map(|front| start + front).find(is_live);
        }
        // Small alignments leave few places for the block.
        (start..end).step_by(FRONT).take(1 << 20).find(is_live)
    }
}
