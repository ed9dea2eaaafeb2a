//! Heaps that have ended while the program holds blocks of theirs, and promised to do nothing with them but free them.
//!
//! Their memory is closed: an access ends the process with a line that says so, and where the heap was ended. A late free
//! changes the block's mark and is counted; with the last one the heap goes.

use super::Hardened;
use super::fences::Fence;
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::{MIN_ALIGN, UNIT_BYTES};
use crate::heap::{HeapId, Refusal};
use crate::os::Os;

/// Spans that are closed by mappings, where pages cannot be marked.
const MOST_MAPPED: usize = 1024;

impl<O: Os> Hardened<O> {
    /// Makes a heap that drains a zombie.
    pub(super) fn condemn(&self, id: HeapId) {
        let tenants = &self.heap.tenants;
        if !tenants.condemn(id) {
            // It had no blocks.
            return;
        }
        self.note_end(id);
        // A thread that is in a block, or does not let blocks leave quarantine, keeps the memory open: then no late access is found.
        let is_alone = self.wait_for_visits(id);
        self.empty_quarantine_of(id);
        let blocks = self.heap.heap_stats(id).map_or(0, |stats| stats.live_blocks);
        if is_alone && self.count_live(id) + self.late_of(id) == blocks {
            self.close_spans_of(id);
        }
        if tenants.expect_late(id, blocks) {
            self.bury_last(id);
        }
    }

    fn late_of(&self, id: HeapId) -> u64 {
        self.heap.heap_stats(id).map_or(0, |stats| stats.late)
    }

    fn count_live(&self, id: HeapId) -> u64 {
        let mut count = 0;
        self.each_live_of(id, |_, _| count += 1);
        count
    }

    /// Calls `take` with start and bytes of each span of a heap, of which none is opened or closed.
    fn each_span_of(&self, id: HeapId, mut take: impl FnMut(usize, usize)) {
        let pages = &self.heap.pages;
        pages.each_span(|_, span| {
            let start = pages.address_of(span.start.get());
            if self.heap.owner_heap(start) == Some(id) {
                take(start, span.units.get() as usize * UNIT_BYTES);
            }
        });
    }

    /// Closes what a heap has; as far as the system lets it.
    fn close_spans_of(&self, id: HeapId) {
        // The frames say which blocks have guards, and go.
        self.each_live_of(id, |user, _| {
            if self.inspect(user).is_ok_and(|live| live.frame.fenced != Fence::None) {
                self.fenced.fetch_sub(1, Ordering::Relaxed);
            }
        });
        let mut mapped = 0;
        self.each_span_of(id, |start, bytes| {
            let os = &self.heap.os;
            let is_marked = self.fences.kind() == Fence::Marked && Fence::Marked.close(os, start, bytes);
            if !is_marked && mapped < MOST_MAPPED {
                mapped += 1;
                self.wipe(start, bytes);
                os.close_pages(start, bytes);
            }
            self.heap.inside(|_| self.heap.pages.note_gone(start, 0, bytes, true));
        });
    }

    /// Opens what a heap has, which reads as zeros then; false where the system refuses that.
    fn open_spans_of(&self, id: HeapId) -> bool {
        let mut are_open = true;
        self.each_span_of(id, |start, bytes| {
            let os = &self.heap.os;
            // The one or the other closed it, or a part.
            let is_unmarked = Fence::Marked.open(os, start, bytes) || self.fences.kind() != Fence::Marked;
            let is_open = is_unmarked && Fence::Mapped.open(os, start, bytes);
            if is_open {
                self.wipe(start, bytes);
            }
            are_open &= is_open;
        });
        are_open
    }

    /// A late free: the block's frame is gone, its mark is not.
    pub(super) fn take_late(&self, id: HeapId, address: usize) -> Result<(), Misuse> {
        let state = self.state_of(address);
        if !state.is_live() || !address.is_multiple_of(MIN_ALIGN) {
            return Err(self.no_block(address, state));
        }
        let taken = self.mark_of(address).map_or(Err(state), |mark| mark.take_back(state));
        taken.map_err(|state| self.no_block(address, state))?;
        self.heap.note_taken_back(address);
        if self.heap.tenants.note_late(id) {
            self.bury_last(id);
        }
        Ok(())
    }

    /// After the last late free.
    fn bury_last(&self, id: HeapId) {
        if self.heap.tenants.claim_last(id) {
            self.close_grave(id);
        }
    }

    /// Ends a zombie, whatever of it was not freed.
    pub(super) fn bury(&self, id: HeapId) -> Result<(), Refusal> {
        if !self.heap.tenants.claim(id) {
            return Err(Refusal::Gone);
        }
        self.each_live_of(id, |user, _| {
            let state = self.state_of(user);
            if state.is_live() && self.mark_of(user).is_some_and(|mark| mark.take_back(state).is_ok()) {
                self.heap.note_taken_back(user);
            }
        });
        self.close_grave(id);
        Ok(())
    }

    fn close_grave(&self, id: HeapId) {
        // Memory that the system does not open stays a zombie's.
        if self.open_spans_of(id) {
            self.heap.end_taken_back(id);
        }
    }
}
