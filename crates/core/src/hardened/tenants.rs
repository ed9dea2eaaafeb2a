//! Heaps of tenants under the policy: their blocks have frames, marks and guards as all have.
//!
//! They wait in a quarantine of their own, so that what leaves the other one is always the process's, and go back by the
//! ordinary way. A heap that ends is freed block by block: a write beside one of them is found then.

use super::Hardened;
use crate::heap::{Ending, HeapId, Refusal};
use crate::os::Os;
use crate::tenants::Zombie;

impl<O: Os> Hardened<O> {
    /// `Blocks::allocate_in`.
    pub(super) fn make_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        if id != HeapId::OWN && !self.heap.is_heap(id) {
            return Err(Refusal::Gone);
        }
        match self.allocate_of(id, align, bytes) {
            0 if !self.heap.is_heap(id) => Err(Refusal::Gone),
            0 => Err(Refusal::Memory),
            block => Ok(block),
        }
    }

    /// `Blocks::end_heap`.
    pub(super) fn finish_heap(&self, id: HeapId, how: Ending) -> Result<(), Refusal> {
        let is_zombie = self.heap.tenants.zombie(id) != Zombie::No;
        if !is_zombie {
            // Blocks that wait are counted with their heap, and were not freed late.
            self.empty_quarantine_of(id);
        }
        match how {
            Ending::FreeAll if is_zombie => self.bury(id),
            // Nobody could use the blocks.
            _ if is_zombie => Err(Refusal::Gone),
            Ending::HandOver => self.heap.end_heap(id, how),
            Ending::Drain => {
                self.heap.end_heap(id, how)?;
                self.empty_quarantine_of(id);
                Ok(())
            }
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
                let is_prompt = self.heap.tenants.is_prompt(id);
                self.free_all_of(id);
                self.heap.settle_end(before.bytes as usize, is_prompt);
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
        // Spans that it keeps although they are empty go too.
        self.heap.release_heap(id);
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
        self.empty_quarantine_of(id);
    }
}
