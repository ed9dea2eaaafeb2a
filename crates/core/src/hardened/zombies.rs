//! Heaps that have ended while the program holds blocks of theirs, and promised to do nothing with them but free them.
//!
//! Their memory is closed: an access ends the process with a line that says so, and where the heap was ended. A late free
//! changes the block's mark and is counted; with the last one the heap goes.

use super::Hardened;
use super::fences::Fence;
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::MIN_ALIGN;
use crate::heap::{HeapId, Refusal};
use crate::os::Os;

/// Spans that are closed by mappings, where pages cannot be marked.
const MOST_MAPPED: usize = 1024;

impl<O: Os> Hardened<O> {
    /// Makes a heap that drains a zombie, where that can be: else it goes on draining, and late accesses are not found.
    pub(super) fn condemn(&self, id: HeapId) {
        let (tenants, store) = (&self.heap.tenants, &self.heap.store);
        let begun = self.heap.in_slow_path(|_| tenants.begin_condemning(store, id)).unwrap_or(Ok(false));
        if !self.heap.obeyed(begun) {
            // It had no blocks, or a handler interrupted the heap.
            return;
        }
        self.note_closer(true);
        self.note_end(id);
        let can_be = self.wait_for_visits(id) && self.empty_quarantine_of(id);
        let blocks = self.count_live(id);
        let is_one = can_be
            && blocks != 0
            && self.heap.heap_stats(id).is_some_and(|stats| stats.live_blocks == blocks);
        if is_one {
            self.close_spans_of(id);
        }
        self.note_closer(false);
        self.heap.in_slow_path(|_| tenants.end_condemning(store, id, is_one.then_some(blocks)));
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
                take(start, span.bytes());
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
            if is_marked {
                self.fences.note_marks();
            }
            // Guards in it are open before it is written to.
            let is_gone = is_marked
                || mapped < MOST_MAPPED && Fence::Mapped.open(os, start, bytes) && {
                    mapped += 1;
                    let is_gone = self.wipe(start, bytes);
                    os.close_pages(start, bytes);
                    is_gone
                };
            if is_gone {
                self.heap.inside(|_| self.heap.pages.note_gone(start, 0, bytes, true));
            }
        });
    }

    /// Opens what a heap has, which reads as zeros then; false where the system refuses that.
    fn open_spans_of(&self, id: HeapId) -> bool {
        let mut are_open = true;
        self.each_span_of(id, |start, bytes| {
            let os = &self.heap.os;
            // The one or the other closed it, or a part; where the system knows no marks, there are none.
            let is_unmarked = Fence::Marked.open(os, start, bytes) || !self.fences.had_marks();
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
        // A handler that interrupted the heap leaves it to the program.
        if !self.heap.is_inside() && self.heap.tenants.claim_last(id) {
            self.close_grave(id);
        }
    }

    /// Ends a zombie, whatever of it was not freed.
    pub(super) fn bury(&self, id: HeapId) -> Result<(), Refusal> {
        if self.heap.is_inside() {
            return Err(Refusal::Memory);
        }
        if !self.heap.tenants.claim(id) {
            return Err(Refusal::Gone);
        }
        self.each_live_of(id, |user, _| {
            let state = self.state_of(user);
            if state.is_live() && self.mark_of(user).is_some_and(|mark| mark.take_back(state).is_ok()) {
                self.heap.note_taken_back(user);
            }
        });
        if self.close_grave(id) { Ok(()) } else { Err(Refusal::Memory) }
    }

    fn close_grave(&self, id: HeapId) -> bool {
        // Memory that the system does not open stays a zombie's, which another call may end.
        let is_open = self.open_spans_of(id);
        match is_open {
            true => self.heap.end_taken_back(id),
            false => self.heap.tenants.unclaim(id),
        }
        is_open
    }
}
