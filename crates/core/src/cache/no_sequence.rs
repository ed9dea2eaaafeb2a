//! Where there are no restartable sequences: every operation fails, and the locked caches serve.

use super::slab::{Slab, Word};
use super::slab_cache::SlabCache;
use crate::class::SizeClass;

/// No sequences.
#[derive(Default)]
pub struct Front;

impl Front {
    pub const fn new() -> Self {
        Front
    }

    pub fn start(&self, _: isize, _: isize, _: usize, _: usize) {}

    pub fn stop(&self, _: usize) {}

    pub fn set_direct(&self, _: bool) {}

    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        false
    }

    #[inline(always)]
    pub fn pop_for(&self, _: usize) -> usize {
        0
    }

    pub fn is_on(&self) -> bool {
        false
    }

    pub fn current(&self) -> Option<usize> {
        None
    }

    #[inline(always)]
    pub fn pop(&self, _: SizeClass) -> usize {
        0
    }

    #[inline(always)]
    pub fn push(&self, _: SizeClass, _: usize) -> bool {
        false
    }
}

/// Never made: `Front::current` has none.
pub struct Current<'a> {
    pub front: &'a Front,
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

    fn pop_batch(&self, _: SizeClass, _: &mut [usize]) -> usize {
        0
    }

    fn push_batch(&self, _: SizeClass, _: &[usize]) -> usize {
        0
    }

    fn replace(&self, _: SizeClass, _: Word, _: Word) -> bool {
        false
    }
}
