//! A block for the program: of no bytes, made, or made of what waits.

use super::{Hardened, MOST_BYTES};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// `Blocks::allocate_aligned`.
    pub(super) fn allocate_at(&self, align: usize, bytes: usize) -> usize {
        if bytes > MOST_BYTES {
            return 0;
        }
        if bytes == 0
            && !self.heap.is_aborting()
            && let Some(block) = self.heap.sources.empties.make(&self.heap.os, align)
        {
            return block;
        }
        let attempt = || self.heap.obeyed(self.make(align, bytes));
        let block = match attempt() {
            // Blocks that wait in quarantine may be what is missing.
            0 if !self.heap.is_aborting() => {
                self.empty_quarantine();
                attempt()
            }
            block => block,
        };
        self.heap.note_made(block, bytes)
    }
}
