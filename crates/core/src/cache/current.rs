//! The cache of the virtual CPU that a thread runs on, by restartable sequences.

use super::sequence::Front;
use super::slab::{Slab, Word};
use super::slab_cache::SlabCache;
use crate::class::SizeClass;

/// Never made without sequences: `Front::current` has none then.
pub struct Current<'a> {
    pub front: &'a Front,
    /// The slab that the caller decided about; the thread may have moved since.
    pub slab: Slab,
}

impl SlabCache for Current<'_> {
    fn slab(&self) -> Slab {
        self.slab
    }

    fn pop(&self, class: SizeClass) -> usize {
        self.front.pop(class)
    }

    fn push(&self, class: SizeClass, block: usize) -> bool {
        self.front.push(class, block)
    }

    fn pop_batch(&self, class: SizeClass, out: &mut [usize]) -> usize {
        self.front.pop_batch(class, out)
    }

    fn push_batch(&self, class: SizeClass, blocks: &[usize]) -> usize {
        self.front.push_batch(class, blocks)
    }

    fn replace(&self, class: SizeClass, expected: Word, new: Word) -> bool {
        self.front.replace(self.slab, class, expected, new)
    }
}
