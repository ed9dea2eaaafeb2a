//! A block for the program: of no bytes, made, or made of what waits.

use super::visits::Visit;
use super::{Hardened, MOST_BYTES, Of};
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
        let visit = if id == HeapId::OWN { Visit::Own } else { self.visit_heap(id) };
        if matches!(visit, Visit::Zombie(_)) {
            return 0;
        }
        let attempt = |is_last| self.heap.obeyed(self.make(Of { id, is_last }, align, bytes));
        let block = match attempt(false) {
            // Blocks that wait in quarantine may be what is missing.
            0 if !self.heap.is_aborting() => {
                match id {
                    HeapId::OWN => self.empty_quarantine(),
                    _ => self.empty_quarantine_of_tenants(),
                }
                attempt(true)
            }
            block => block,
        };
        self.heap.note_made(block, bytes)
    }
}
