//! Free runs of units in 2 MiB blocks: the fullest block that can serve a request serves it.
//!
//! A block is listed by its longest free run. The shortest run that is long enough comes from a block that is
//! fuller than most, so emptier blocks drain and can be given back whole.

mod gaps;
mod index;
mod mend;
mod take;

pub use index::{GROUP, Group};

use super::bits::{self, BLOCK_UNITS};
use crate::base::ticks::Tick;
use core::sync::atomic::{Ordering, compiler_fence};

pub const BLOCK_NONE: u32 = u32::MAX;

/// One 2 MiB block. All fields belong to the lock of the pages. A block that is all zero is not ours.
#[repr(C, align(64))]
pub struct Block {
    /// Units that are ours and belong to no span.
    pub free: u128,
    /// Units that may hold memory: used once and not given back since.
    pub dirty: u128,
    /// In the first block of a gap: how many blocks it has.
    next: u32,
    previous: u32,
    /// The list that it is in: the length of its longest free run, or CLEAN.
    list: u8,
    /// The tick when a unit became free or used last.
    pub changed_at: Tick,
    /// The tick when memory of it was given back last, 0: never.
    pub released_at: Tick,
    /// Left out of core files.
    pub undumped: bool,
    pub huge: Huge,
}

/// The state of huge pages under a block, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Huge {
    /// The block is not ours: somebody else had mapped something there, or before or behind it.
    Foreign = 0,
    No,
    Yes,
    /// It was given back in part since: it will not be tried again while it is in use.
    Broken,
}

impl Block {
    const FOREIGN: Block = Block {
        free: 0,
        dirty: 0,
        next: BLOCK_NONE,
        previous: BLOCK_NONE,
        list: 0,
        changed_at: Tick(0),
        released_at: Tick(0),
        undumped: false,
        huge: Huge::Foreign,
    };
}

/// The list of blocks that are wholly free and hold no memory.
const CLEAN: usize = BLOCK_UNITS as usize + 1;
const LISTS: usize = CLEAN + 1;

/// A run of free units that was found, and whether its memory is known to read as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start: u32,
    pub zeroed: bool,
}

/// The lists of blocks by free run, over a table of blocks that somebody else owns.
pub struct Runs {
    heads: [u32; LISTS],
    /// Bit n - 1: list n has a block.
    occupied: u128,
    /// Blocks in the table; all of them are mapped, or lie in a gap.
    pub blocks: u32,
    /// The number of the block that lies at address 0: whole blocks are aligned by their addresses.
    pub first_number: u32,
    /// The first units of a block of ours that wait until all others are used: a block and how many.
    waiting: (u32, u32),
    /// Units that are free and may hold memory.
    pub dirty_free: u64,
    /// Units in use.
    pub used: u64,
    /// Units that lie in our range but belong to somebody else.
    pub lost: u64,
    /// Units that came into use although they had been given back not before `too_soon_from`, ever.
    pub came_back: u64,
    pub too_soon_from: Tick,
    /// The first of the wholly free blocks without memory that came into use since somebody asked last.
    begun: Option<u32>,
    /// The least of `dirty_free` since somebody asked last: nobody needed so much.
    low: u64,
}

/// How the lists reach their blocks.
///
/// # Safety
/// `block` returns, for every number below `Runs::blocks`, a block that only the holder of the lists uses; `group` the same
/// for its number in groups.
pub unsafe trait Blocks {
    fn block(&self, number: u32) -> *mut Block;
    fn group(&self, number: u32) -> *mut Group;
}

impl Runs {
    pub const fn new() -> Self {
        Runs {
            heads: [BLOCK_NONE; LISTS],
            occupied: 0,
            blocks: 0,
            first_number: 0,
            waiting: (0, 0),
            dirty_free: 0,
            used: 0,
            lost: 0,
            came_back: 0,
            // Later than "never".
            too_soon_from: Tick(1),
            begun: None,
            low: 0,
        }
    }

    // The exclusive right comes from the trait's promise, which the compiler cannot see.
    #[allow(clippy::mut_from_ref)]
    fn of(blocks: &impl Blocks, number: u32) -> &mut Block {
        // SAFETY: by the trait's promise; one reference lives at a time in each function below.
        unsafe { &mut *blocks.block(number) }
    }

    /// Adds the next block of the table: free and clean.
    pub fn add_block(&mut self, blocks: &impl Blocks) {
        let number = self.blocks;
        *Self::of(blocks, number) = Block { free: u128::MAX, huge: Huge::No, ..Block::FOREIGN };
        self.count_blocks(1);
        self.insert(blocks, number);
    }

    /// After their entry: a child that is made between knows nothing of them.
    fn count_blocks(&mut self, count: u32) {
        compiler_fence(Ordering::Release);
        self.blocks += count;
        compiler_fence(Ordering::Release);
    }

    /// Makes a used run free. Its memory may have been written: it counts as dirty.
    pub fn put(&mut self, blocks: &impl Blocks, start: u32, units: u32, now: Tick) {
        each_part(start, units, |number, mask| {
            self.remove(blocks, number);
            let block = Self::of(blocks, number);
            block.free |= mask;
            block.changed_at = now;
            self.used -= mask.count_ones() as u64;
            self.dirty_free += mask.count_ones() as u64;
            self.insert(blocks, number);
        });
    }

    /// True if no unit of the block is in use.
    pub fn is_unused(&self, blocks: &impl Blocks, number: u32) -> bool {
        Self::of(blocks, number).free == u128::MAX
    }

    /// Bytes of free memory that a block may hold.
    pub fn dirty_of(&self, blocks: &impl Blocks, number: u32) -> u128 {
        let block = Self::of(blocks, number);
        block.dirty & block.free
    }

    /// Marks the free ones of some units of a block as used if any may hold memory, so that those can be given back
    /// outside the lock. Returns the units withheld and those of them that may hold memory.
    pub fn withhold_free(&mut self, blocks: &impl Blocks, number: u32, of: u128) -> (u128, u128) {
        let block = Self::of(blocks, number);
        let (free, dirty) = (block.free & of, block.dirty & block.free & of);
        if dirty == 0 {
            return (0, 0);
        }
        self.mark_used(blocks, number, free);
        (free, dirty)
    }

    /// Ends `withhold_free`: the units are free again, and clean if the system took them.
    pub fn return_withheld(&mut self, blocks: &impl Blocks, number: u32, mask: u128, clean: bool) {
        self.remove(blocks, number);
        let block = Self::of(blocks, number);
        block.free |= mask;
        if clean {
            block.dirty &= !mask;
        }
        self.used -= mask.count_ones() as u64;
        self.dirty_free += (block.dirty & mask).count_ones() as u64;
        self.insert(blocks, number);
        self.note_low();
    }

    /// Marks units used that the program will have, and looks whether it gets memory that it just lost.
    fn take_units(&mut self, blocks: &impl Blocks, number: u32, mask: u128) -> bool {
        let block = Self::of(blocks, number);
        if block.free == u128::MAX && block.dirty == 0 {
            self.begun = self.begun.or(Some(number));
        }
        if block.released_at.is_since(self.too_soon_from) {
            // Some of these may never have been used: in the newest blocks only.
            self.came_back += (mask & !block.dirty).count_ones() as u64;
        }
        let zeroed = self.mark_used(blocks, number, mask);
        self.note_low();
        zeroed
    }

    /// The first block that came into use without any memory since this was asked last.
    pub fn take_begun(&mut self) -> Option<u32> {
        self.begun.take()
    }

    /// Notes that a block of ours is one huge page now: its free units hold memory too.
    pub fn note_whole(&mut self, blocks: &impl Blocks, number: u32) {
        self.remove(blocks, number);
        let block = Self::of(blocks, number);
        let more = (block.free & !block.dirty).count_ones() as u64;
        if block.released_at.is_since(self.too_soon_from) {
            self.came_back += more;
        }
        self.dirty_free += more;
        block.dirty = u128::MAX;
        block.huge = Huge::Yes;
        self.insert(blocks, number);
    }

    fn note_low(&mut self) {
        self.low = self.low.min(self.dirty_free);
    }

    /// Free units that may hold memory and that nobody needed since this was asked last.
    pub fn low_water(&mut self) -> u64 {
        core::mem::replace(&mut self.low, self.dirty_free)
    }

    /// Returns true if every unit of the part was clean. Used units count as dirty from now on.
    #[inline(never)]
    fn mark_used(&mut self, blocks: &impl Blocks, number: u32, mask: u128) -> bool {
        self.remove(blocks, number);
        let block = Self::of(blocks, number);
        debug_assert!(block.free & mask == mask);
        let was_dirty = block.dirty & mask;
        block.free &= !mask;
        block.dirty |= mask;
        self.used += mask.count_ones() as u64;
        self.dirty_free -= was_dirty.count_ones() as u64;
        self.insert(blocks, number);
        was_dirty == 0
    }

    fn insert(&mut self, blocks: &impl Blocks, number: u32) {
        let block = Self::of(blocks, number);
        let longest = bits::longest_run(block.free) as usize;
        let list = if block.free == u128::MAX && block.dirty == 0 { CLEAN } else { longest };
        block.list = list as u8;
        block.previous = BLOCK_NONE;
        let is_free = block.free == u128::MAX;
        self.note_free(blocks, number, is_free);
        let block = Self::of(blocks, number);
        if list == 0 {
            return;
        }
        let Some(head) = self.heads.get_mut(list) else { return };
        block.next = *head;
        if *head != BLOCK_NONE {
            Self::of(blocks, *head).previous = number;
        }
        *head = number;
        if list != CLEAN {
            self.occupied |= 1 << (list - 1);
        }
    }

    fn remove(&mut self, blocks: &impl Blocks, number: u32) {
        let block = Self::of(blocks, number);
        let (list, next, previous) = (block.list as usize, block.next, block.previous);
        if list == 0 {
            return;
        }
        if next != BLOCK_NONE {
            Self::of(blocks, next).previous = previous;
        }
        if previous != BLOCK_NONE {
            Self::of(blocks, previous).next = next;
        } else if let Some(head) = self.heads.get_mut(list) {
            *head = next;
            if next == BLOCK_NONE && list != CLEAN {
                self.occupied &= !(1 << (list - 1));
            }
        }
    }
}

/// Calls `part` with each block that a run touches and the mask of its units there.
fn each_part(start: u32, units: u32, mut part: impl FnMut(u32, u128)) {
    let (mut at, mut left) = (start, units);
    while left > 0 {
        let inside = at % BLOCK_UNITS;
        let length = left.min(BLOCK_UNITS - inside);
        part(at / BLOCK_UNITS, bits::mask(inside, length));
        at += length;
        left -= length;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
