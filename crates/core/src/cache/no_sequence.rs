//! Where there are no restartable sequences: every operation fails, and the locked caches serve.

use super::slab::{Slab, Word};
use super::turn::{NOT_EXCHANGED, Turn};
use crate::class::SizeClass;

/// No sequences.
#[derive(Default)]
pub struct Front;

impl Front {
    /// Every request takes the slow path: nobody has to ring.
    pub const RING: Option<usize> = None;

    pub const fn new() -> Self {
        Front
    }

    pub fn start(&self, _: isize, _: isize, _: usize, _: usize) {}

    pub fn start_as(&self, _: &Front) {}

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

    pub fn area_in_use(&self) -> Option<isize> {
        None
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

    pub fn pop_batch(&self, _: SizeClass, _: &mut [usize]) -> usize {
        0
    }

    pub fn push_batch(&self, _: SizeClass, _: &[usize]) -> usize {
        0
    }

    pub fn replace(&self, _: Slab, _: SizeClass, _: Word, _: Word) -> bool {
        false
    }

    pub fn cpus(&self) -> usize {
        0
    }

    /// # Safety
    /// None is needed here.
    pub unsafe fn exchange(&self, _: usize, _: usize, _: Turn, _: usize, _: usize) -> usize {
        NOT_EXCHANGED
    }
}
