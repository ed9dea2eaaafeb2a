//! Whether a block is free: its address is looked for in caches, the transfer array and spans, and nothing is emptied.

use super::slab::Slab;
use super::tables::WORD;
use super::{Cache, Middle};
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::Os;

/// Whether the array of a class has the block in one of its places. Its owner is not disturbed: without a fence the
/// answer is one about the array as it was during the look.
fn has_block(slab: Slab, class: SizeClass, block: usize) -> bool {
    let word = slab.read(class);
    // Pairs with the store that ended the last change: the blocks that the word counts are seen.
    core::sync::atomic::fence(Ordering::Acquire);
    (0..word.len(class)).any(|place| slab.entry(word.top() - place * WORD).load(Ordering::Relaxed) == block)
}

impl<O: Os> Cache<O> {
    /// Whether a block that its span gave out, and that the caller says is the program's, is free. False for certain
    /// where it is the program's: then nobody else puts it anywhere, and no array counts it.
    ///
    /// Slabs are frozen meanwhile, so that it cannot pass from one that is still to be searched to one that was. If
    /// the system refuses the fence, or somebody else has frozen some, they are searched all the same. A batch that a
    /// slow path has in its hands is not seen; `Central` finds a second free of a block in it when that comes back to
    /// its span.
    pub fn is_free(&self, store: &impl Middle<O>, class: SizeClass, block: usize) -> bool {
        self.has(store, class, block) || store.pages().class_of_allocated(block) != Some(class)
    }

    /// Whether a block lies in one of the slabs, or waits in the middle.
    pub fn has(&self, store: &impl Middle<O>, class: SizeClass, block: usize) -> bool {
        let (base, cpus) = (self.base.load(Ordering::Relaxed), self.cpus.load(Ordering::Relaxed));
        // Not waited for: its holder empties caches, into the places that are searched last.
        let held = self.freezer.try_lock();
        if held.is_some() {
            self.each_made(|slot, _| self.in_use(slot).store(base, Ordering::Release));
            if cpus > 0 {
                store.os().fence_sequences();
            }
        }
        let mut found = false;
        self.each_made(|slot, slab| {
            let _lock = if slot < cpus { None } else { self.patient_lock(slot) };
            found = found || has_block(slab, class, block);
        });
        found = found || store.transfers(class, block);
        if held.is_some() {
            self.each_made(|slot, slab| self.in_use(slot).store(slab.0, Ordering::Release));
        }
        drop(held);
        found
    }
}
