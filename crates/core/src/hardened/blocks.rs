//! Operations on blocks, each step checked.

use super::frame::is_said;
use super::visits::Visit;
use super::{Hardened, MOST_BYTES};
use crate::base::fault::{Access, Fault, Maker, Misuse};
use crate::base::stack::Stack;
use crate::heap::{Blocks, Ending, Heap, HeapId, Refusal};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// Stops the process unless the block was asked for with this alignment and, where one is said, with this size.
    fn check_said(&self, address: usize, said: Option<usize>, align: usize) {
        if self.is_outside(address) || !self.heap.sizes_count() {
            return;
        }
        if self.heap.sources.empties.owns(address) {
            let empty = self.heap.obeyed(self.heap.sources.empties.inspect(address));
            if said.is_some_and(|bytes| bytes != 0) || !is_said(empty.asked(), align) {
                self.heap.obeyed(Err(Misuse { said, ..empty.misuse(Fault::WrongSize) }))
            }
            return;
        }
        let visit = self.visit(address);
        if matches!(visit, Visit::Zombie(_)) {
            // Its frame is gone.
            return;
        }
        let live = self.heap.obeyed(self.inspect(address));
        let frame = live.frame;
        let is_exact = said.is_none_or(|bytes| frame.bytes == bytes) && is_said(frame.asked, align);
        let is_of_own_new = || {
            said.is_some_and(|bytes| frame.serves_foreign_new(bytes, align))
                && (!self.makers_count() || self.has_own_new())
        };
        if !is_exact && !is_of_own_new() {
            self.heap.obeyed(Err(Misuse { said, ..self.about(Fault::WrongSize, &live) }))
        }
    }
}

impl<O: Os> Blocks for Hardened<O> {
    type Os = O;

    fn heap(&self) -> &Heap<O> {
        &self.heap
    }

    fn has_guard_pages(&self) -> bool {
        true
    }

    /// A small block whose memory is cached: nothing here asks the system.
    #[inline]
    fn allocate_fast(&self, bytes: usize) -> usize {
        self.make_fast(bytes, Maker::Malloc)
    }

    #[inline]
    fn make_fast(&self, bytes: usize, maker: Maker) -> usize {
        Self::make_fast(self, bytes, maker)
    }

    fn allocate_slow(&self, bytes: usize) -> usize {
        // An alignment of 1: the caller named none.
        self.allocate_aligned(1, bytes)
    }

    #[inline(always)]
    fn allocate_aligned_fast(&self, _: usize, _: usize) -> usize {
        0
    }

    fn allocate_aligned(&self, align: usize, bytes: usize) -> usize {
        self.allocate_at(align, bytes)
    }

    /// Memory is zero when it is handed out.
    #[inline]
    fn allocate_zeroed_fast(&self, count: usize, bytes: usize) -> usize {
        count.checked_mul(bytes).map_or(0, |total| self.allocate_fast(total))
    }

    fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize {
        count.checked_mul(bytes).map_or(0, |total| self.allocate(total))
    }

    fn allocate_aligned_zeroed(&self, align: usize, bytes: usize) -> usize {
        self.allocate_aligned(align, bytes)
    }

    fn reallocate(&self, address: usize, bytes: usize) -> usize {
        match self.resize_fast(address, bytes) {
            // Its owner's next free says nothing of an alignment.
            0 => self.reallocate_aligned(address, 1, bytes),
            block => block,
        }
    }

    fn reallocate_aligned(&self, address: usize, align: usize, bytes: usize) -> usize {
        self.resize(address, align, bytes)
    }

    fn resize_in_place(&self, address: usize, align: usize, bytes: usize) -> bool {
        if self.is_outside(address) || bytes > MOST_BYTES {
            return false;
        }
        if self.heap.sources.empties.owns(address) {
            self.check_empty(address);
            return bytes == 0 && address.is_multiple_of(align);
        }
        let _visit = self.visit_to_use(address);
        let live = self.heap.obeyed(self.owned(address));
        self.resizes_in_place(&live, align, bytes)
    }

    #[inline]
    fn free_fast(&self, address: usize) -> bool {
        self.take_back_fast(address, Maker::Malloc, None)
    }

    /// A caller that says a size may say an alignment too.
    #[inline(always)]
    fn free_sized_fast(&self, _: usize, _: usize) -> bool {
        false
    }

    #[inline]
    fn take_fast(&self, address: usize, maker: Maker) -> bool {
        self.take_back_fast(address, maker, None)
    }

    #[inline]
    fn take_sized_fast(&self, address: usize, bytes: usize, maker: Maker) -> bool {
        self.take_back_fast(address, maker, Some(bytes))
    }

    /// For blocks of malloc's family; others are handed over to it before.
    fn free_slow(&self, address: usize) {
        if !self.is_outside(address) {
            self.heap.obeyed(self.take_back(address, Maker::Malloc));
        } else if !self.heap.is_aborting() {
            self.heap.sources.emergency.take_back(address);
        }
    }

    fn mark(&self, address: usize, maker: Maker) {
        self.change_maker(address, Maker::Malloc, maker);
    }

    fn hand_over(&self, address: usize, maker: Maker) {
        self.change_maker(address, maker, Maker::Malloc);
    }

    /// Stops the process unless the block at `address` was asked for with exactly this size and alignment, or
    /// may have been for a request of them, or nobody is to look.
    fn check_size(&self, address: usize, bytes: usize, align: usize) {
        self.check_said(address, Some(bytes), align);
    }

    fn check_alignment(&self, address: usize, align: usize) {
        self.check_said(address, None, align);
    }

    /// The bytes that were asked for: there are no others.
    fn usable_bytes(&self, address: usize) -> usize {
        if let Some(bytes) = self.usable_fast(address) {
            return bytes;
        }
        if self.is_outside(address) {
            return self.heap.sources.emergency.bytes_of(address).unwrap_or(0);
        }
        if self.heap.sources.empties.owns(address) {
            self.heap.obeyed(self.heap.sources.empties.inspect(address).map_err(Misuse::of_use));
            return 0;
        }
        let _visit = self.visit_to_use(address);
        self.heap.obeyed(self.inspect(address).map_err(Misuse::of_use)).frame.bytes
    }

    fn block_bytes_for(&self, bytes: usize, _: usize) -> usize {
        bytes
    }

    #[inline]
    fn check_copy(&self, address: usize, bytes: usize) {
        if let wrong @ Err(_) = self.look_at_copy(address, bytes) {
            self.heap.obeyed(wrong);
        }
    }

    fn allocate_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.make_in(id, align, bytes)
    }

    /// Memory is zero when it is handed out.
    fn allocate_zeroed_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.make_in(id, align, bytes)
    }

    fn heap_for_token(&self, token: u64) -> HeapId {
        self.partition_of(token)
    }

    fn end_heap(&self, id: HeapId, how: Ending) -> Result<(), Refusal> {
        self.finish_heap(id, how)
    }

    fn reset_heap(&self, id: HeapId) -> Result<(), Refusal> {
        self.empty_heap(id)
    }

    fn each_block_of(&self, id: HeapId, take: impl FnMut(usize, usize)) {
        self.each_live_of(id, take);
    }

    fn owns(&self, address: usize) -> bool {
        self.heap.sources.empties.owns(address) || self.heap.owns(address)
    }

    fn explain(&self, address: usize, access: Access) -> Option<Misuse> {
        self.meaning_of(address, access)
    }

    fn tell_more(&self, misuse: &Misuse, here: &dyn Fn() -> Stack) {
        self.tell_of_end(misuse, here);
    }

    fn release(&self, keep: usize) -> usize {
        self.empty_quarantine();
        self.heap.release(keep)
    }

    /// Looks whether anybody wrote to the blocks in quarantine.
    fn audit(&self) {
        let mut outcome = Ok(());
        for quarantine in [&self.quarantine, &self.of_tenants] {
            quarantine.empty(&self.heap.os, |start| {
                outcome = outcome.and(self.is_untouched(start, self.heap.pages.class_of_block(start)));
            });
        }
        self.heap.obeyed(outcome);
        self.heap.audit();
    }

    fn audit_for_good(&self) {
        self.audit();
        self.heap.audit_for_good();
    }
}
