//! The operations on a virtual CPU's cache. Each is atomic for the threads that share the cache; between two
//! of them anything may happen.

use super::sequence::Front;
use super::slab::{Slab, Word};
use crate::class::SizeClass;

pub trait SlabCache {
    /// The slab that `replace` is meant for.
    fn slab(&self) -> Slab;
    /// The block put last, or 0.
    fn pop(&self, class: SizeClass) -> usize;
    /// False where there is no place.
    fn push(&self, class: SizeClass, block: usize) -> bool;
    /// Fills `out` from the block put last on; returns how many.
    fn pop_batch(&self, class: SizeClass, out: &mut [usize]) -> usize;
    /// Puts blocks in order as far as there is place; returns how many.
    fn push_batch(&self, class: SizeClass, blocks: &[usize]) -> usize;
    /// Sets the word of a class if this is still the slab in use and its word is still `expected`.
    fn replace(&self, class: SizeClass, expected: Word, new: Word) -> bool;
}

/// The cache of the virtual CPU that a thread runs on, by restartable sequences.
///
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
