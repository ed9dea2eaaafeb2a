//! The middle as caches see it: they ask one for blocks, whichever heap it is of.

use super::{Budget, Store};
use crate::base::Fresh;
use crate::base::fault::Misuse;
use crate::base::ticks::Tick;
use crate::class::SizeClass;
use crate::os::Os;
use crate::pages::Pages;

/// Where the blocks of a cache come from and go back to.
pub trait Middle<O: Os> {
    fn os(&self) -> &O;
    fn pages(&self) -> &Pages<O>;
    /// The bound that all caches of the process share.
    fn budget(&self) -> &Budget;
    /// Fills `out` with free blocks; fewer than asked for only where there are no more.
    fn take(&self, class: SizeClass, out: &mut [usize]) -> usize;
    /// One free block, and whether it reads as zeros.
    fn take_one(&self, class: SizeClass) -> Fresh;
    /// Takes blocks that a cache has no place for.
    fn give(&self, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse>;
    /// Takes blocks of a cache that is emptied; they are free since tick `at`.
    fn return_blocks(&self, class: SizeClass, blocks: &[usize], at: Tick) -> Result<(), Misuse>;
    /// Whether caches of a class are to stay short.
    fn condenses(&self, class: SizeClass) -> bool;
    /// Whether a freed block waits here in an array.
    fn transfers(&self, class: SizeClass, block: usize) -> bool;
}

impl<O: Os> Middle<O> for Store<O> {
    #[inline(always)]
    fn os(&self) -> &O {
        &self.os
    }

    #[inline(always)]
    fn pages(&self) -> &Pages<O> {
        &self.pages
    }

    #[inline(always)]
    fn budget(&self) -> &Budget {
        &self.central.budget
    }

    #[inline(always)]
    fn take(&self, class: SizeClass, out: &mut [usize]) -> usize {
        self.central.take(&self.os, &self.pages, class, out)
    }

    #[inline(always)]
    fn take_one(&self, class: SizeClass) -> Fresh {
        self.central.take_one(&self.os, &self.pages, class)
    }

    #[inline(always)]
    fn give(&self, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        self.central.give(&self.os, &self.pages, class, blocks)
    }

    #[inline(always)]
    fn return_blocks(&self, class: SizeClass, blocks: &[usize], at: Tick) -> Result<(), Misuse> {
        self.central.return_blocks(&self.pages, class, blocks, at)
    }

    #[inline(always)]
    fn condenses(&self, class: SizeClass) -> bool {
        self.central.condenses(class)
    }

    fn transfers(&self, class: SizeClass, block: usize) -> bool {
        self.central.transfers(class, block)
    }
}
