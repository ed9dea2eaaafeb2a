//! A block for the program: of no bytes, made, or made of what waits.

use super::{Hardened, MOST_BYTES, Of};
use crate::heap::HeapId;
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::allocate_aligned`.
    pub(super) fn allocate_at(&self, align: usize, bytes: usize) -> usize {
        let id = self.heap.scope();
        match self.allocate_of(id, align, bytes) {
            // It ended although this thread used it: the process's own serves.
            0 if id != HeapId::OWN && !self.heap.is_heap(id) => self.allocate_of(HeapId::OWN, align, bytes),
            block => block,
        }
    }

    /// The same, of a heap.
    pub(super) fn allocate_of(&self, id: HeapId, align: usize, bytes: usize) -> usize {
        if bytes > MOST_BYTES {
            return 0;
        }
        // A block of no bytes of a heap goes with it.
        if bytes == 0
            && id == HeapId::OWN
            && !self.heap.is_aborting()
            && let Some(block) = self.heap.sources.empties.make(&self.heap.os, align)
        {
            return block;
        }
        let attempt = |after_limit| self.heap.obeyed(self.make(Of { id, after_limit }, align, bytes));
        let block = match attempt(None) {
            // Blocks that wait in quarantine may be what is missing.
            0 if !self.heap.is_aborting() => {
                match id {
                    HeapId::OWN => self.empty_quarantine(),
                    // Those of heaps below the one that is at its limit too.
                    _ => self.empty_quarantine_of_tenants(),
                }
                attempt(Some(&|| self.empty_quarantine_of_tenants()))
            }
            block => block,
        };
        self.heap.note_made(block, bytes)
    }
}
