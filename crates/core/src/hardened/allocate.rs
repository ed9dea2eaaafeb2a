//! A block for the program: of no bytes, made, or made of what waits.

use super::visits::Visit;
use super::{Hardened, MOST_BYTES};
use crate::heap::HeapId;
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::allocate_aligned`.
    pub(super) fn allocate_at(&self, align: usize, bytes: usize) -> usize {
        self.allocate_of(self.heap.scope(), align, bytes)
    }

    /// The same, of a heap.
    pub(super) fn allocate_of(&self, id: HeapId, align: usize, bytes: usize) -> usize {
        if bytes > MOST_BYTES {
            return 0;
        }
        if bytes == 0
            && !self.heap.is_aborting()
            && let Some(block) = self.heap.sources.empties.make(&self.heap.os, align)
        {
            return block;
        }
        let visit = if id == HeapId::OWN { Visit::OfOwn } else { self.visit_heap(id) };
        if matches!(visit, Visit::OfZombie(_)) {
            return 0;
        }
        let attempt = || self.heap.obeyed(self.make(id, align, bytes));
        let block = match attempt() {
            // Blocks that wait in quarantine may be what is missing.
            0 if id == HeapId::OWN && !self.heap.is_aborting() => {
                self.empty_quarantine();
                attempt()
            }
            block => block,
        };
        self.heap.note_made(block, bytes)
    }
}
