//! Free runs of units in 2 MiB blocks: the fullest block that can serve a request serves it.
//!
//! A block is listed by its longest free run. The shortest run that is long enough comes from a block that is
//! fuller than most, so emptier blocks drain and can be given back whole.

use super::bits::{self, BLOCK_UNITS};
use core::sync::atomic::{Ordering, compiler_fence};

pub const BLOCK_NONE: u32 = u32::MAX;

/// One 2 MiB block. All fields belong to the lock of the pages. One that is all zero is not ours.
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
    pub changed_at: u32,
    /// The tick when memory of it was given back last, 0: never.
    pub given_back_at: u32,
    /// Left out of core files.
    pub undumped: bool,
    pub huge: Huge,
}

/// What is known about huge pages under a block.
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
        changed_at: 0,
        given_back_at: 0,
        undumped: false,
        huge: Huge::Foreign,
    };

    fn is_inside_gap(&self) -> bool {
        self.huge == Huge::Foreign && self.next == 0
    }
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
    pub too_soon_from: u32,
    /// The least of `dirty_free` since somebody asked last: nobody needed so much.
    low: u64,
}

/// A heap of so few blocks may leave them unused: 8 MiB of addresses.
const FEW_BLOCKS: u32 = 4;

/// Free places for a run of more than a block that are compared, and how far behind the first they begin.
const PLACES_COMPARED: u32 = 32;
const COMPARED_WITHIN: u32 = 256;

/// How the lists reach their blocks.
///
/// # Safety
/// `block` returns, for every number below `Runs::blocks`, a block that only the holder of the lists uses.
pub unsafe trait Blocks {
    fn block(&self, number: u32) -> *mut Block;
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
            too_soon_from: 1,
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

    /// Passes over blocks of the table that are lost to us. Only the first is written: the others are zero.
    pub fn add_gap(&mut self, blocks: &impl Blocks, count: u32) {
        *Self::of(blocks, self.blocks) = Block { next: count, ..Block::FOREIGN };
        self.count_blocks(count);
        self.lost += u64::from(count) * u64::from(BLOCK_UNITS);
    }

    /// After their entry: a child that is made between knows nothing of them.
    fn count_blocks(&mut self, count: u32) {
        compiler_fence(Ordering::Release);
        self.blocks += count;
        compiler_fence(Ordering::Release);
    }

    /// Whether a block is not in a gap.
    pub fn is_ours(&self, blocks: &impl Blocks, number: u32) -> bool {
        Self::of(blocks, number).huge != Huge::Foreign
    }

    /// How many blocks on the next one lies that is worth a look.
    pub fn stride(&self, blocks: &impl Blocks, number: u32) -> u32 {
        let block = Self::of(blocks, number);
        if block.huge == Huge::Foreign { block.next.max(1) } else { 1 }
    }

    /// Lets the first units of a new block wait.
    pub fn let_wait(&mut self, blocks: &impl Blocks, number: u32, units: u32) {
        if units != 0 {
            self.remove(blocks, number);
            Self::of(blocks, number).free &= !bits::mask(0, units);
            self.insert(blocks, number);
            self.lost += u64::from(units);
            self.waiting = (number, units);
        }
    }

    /// Makes the units free that wait; false where there are none.
    pub fn end_waiting(&mut self, blocks: &impl Blocks) -> bool {
        let (number, units) = core::mem::take(&mut self.waiting);
        if units == 0 {
            return false;
        }
        self.remove(blocks, number);
        Self::of(blocks, number).free |= bits::mask(0, units);
        self.insert(blocks, number);
        self.lost -= u64::from(units);
        true
    }

    /// Units of a block that wait.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn waiting_of(&self, number: u32) -> u128 {
        let (first, units) = self.waiting;
        if units != 0 && first == number { bits::mask(0, units) } else { 0 }
    }

    /// Finds `units` free units starting at a multiple of `align` units and marks them used.
    pub fn take(&mut self, blocks: &impl Blocks, units: u32, align: u32) -> Option<Run> {
        if units.checked_add(align - 1)? <= BLOCK_UNITS {
            self.take_inside(blocks, units, align)
        } else {
            self.take_across(blocks, units, align)
        }
    }

    /// Whether there is little that is unused: a few blocks, or at most half of the range.
    pub fn is_well_used(&self) -> bool {
        let units = u64::from(self.blocks) * u64::from(BLOCK_UNITS) - self.lost;
        self.blocks < FEW_BLOCKS || self.used * 2 >= units
    }

    /// Whether so many units, at most those of a block, are free in a row inside one.
    pub fn has_run(&self, blocks: &impl Blocks, units: u32) -> bool {
        self.place_inside(blocks, units, 1).is_some()
    }

    /// Finds `units` free units with further free ones behind them, `room` in all, inside one block; marks
    /// the first used. Where there is space, as much is left before them: for what lies there to grow. Where
    /// there is less, half of the room is better than none.
    pub fn take_with_room(&mut self, blocks: &impl Blocks, units: u32, room: u32) -> Option<Run> {
        let half = |room: &u32| Some(room / 2).filter(|half| *half > units);
        let gaps = |room| [(room, room), (room, 0)];
        core::iter::successors(Some(room), half)
            .flat_map(gaps)
            .find_map(|(room, gap)| self.take_spaced(blocks, units, room, gap))
    }

    /// The same with all of the room and of the gap before it, or none.
    fn take_spaced(&mut self, blocks: &impl Blocks, units: u32, room: u32, gap: u32) -> Option<Run> {
        let length = room.checked_add(gap).filter(|length| *length <= BLOCK_UNITS)?;
        let (number, start) = self.place_inside(blocks, length, 1)?;
        let zeroed = self.take_units(blocks, number, bits::mask(start + gap, units));
        Some(Run { start: number * BLOCK_UNITS + start + gap, zeroed })
    }

    fn take_inside(&mut self, blocks: &impl Blocks, units: u32, align: u32) -> Option<Run> {
        let (number, start) = self.place_inside(blocks, units, align)?;
        let zeroed = self.take_units(blocks, number, bits::mask(start, units));
        Some(Run { start: number * BLOCK_UNITS + start, zeroed })
    }

    /// The block of the shortest run that is long enough, and the first unit there.
    fn place_inside(&self, blocks: &impl Blocks, units: u32, align: u32) -> Option<(u32, u32)> {
        let long_enough = self.occupied & (u128::MAX << (units + align - 2));
        let list = if long_enough != 0 { long_enough.trailing_zeros() as usize + 1 } else { CLEAN };
        let number = self.heads.get(list).copied().filter(|head| *head != BLOCK_NONE)?;
        let start = bits::find_run(Self::of(blocks, number).free, units, align)?;
        Some((number, start))
    }

    /// A run of whole blocks and the beginning of one more: the first place that is free, or one not far behind
    /// it with clearly more memory that is there already. New memory costs a fault for each page, and stays.
    fn take_across(&mut self, blocks: &impl Blocks, units: u32, align: u32) -> Option<Run> {
        let step = (align / BLOCK_UNITS).max(1);
        let clearly = (units / 4).max(1);
        let start = self.aligned(0, step);
        let (mut best, mut most) = self.free_across(blocks, start, self.blocks, units, step)?;
        let length = units.div_ceil(BLOCK_UNITS);
        let (mut from, end) = (best + step, self.blocks.min(best + COMPARED_WITHIN + length));
        for _ in 1..PLACES_COMPARED {
            if most + clearly > units {
                break;
            }
            let Some((first, dirty)) = self.free_across(blocks, from, end, units, step) else { break };
            if dirty >= most + clearly {
                (best, most) = (first, dirty);
            }
            from = first + step;
        }
        Some(self.take_at(blocks, best * BLOCK_UNITS, units))
    }

    /// The first block from `number` on whose address is a multiple of `step` blocks, a power of two.
    fn aligned(&self, number: u32, step: u32) -> u32 {
        let above = (self.first_number.wrapping_add(number)).wrapping_neg() & (step - 1);
        number.saturating_add(above)
    }

    /// The next free place for so many units that begins with a block, in blocks `from` to `end`; and how many
    /// of the units may hold memory.
    fn free_across(
        &self,
        blocks: &impl Blocks,
        from: u32,
        end: u32,
        units: u32,
        step: u32,
    ) -> Option<(u32, u32)> {
        let (whole, tail) = (units / BLOCK_UNITS, units % BLOCK_UNITS);
        let length = whole + u32::from(tail != 0);
        let mut first = from;
        'places: while first.checked_add(length)? <= end {
            let (mut dirty, mut in_gap) = (0, false);
            for number in (first..first + length).rev() {
                let needed = if number == first + whole { bits::mask(0, tail) } else { u128::MAX };
                let block = Self::of(blocks, number);
                if block.is_inside_gap() {
                    // Where the gap begins is said how long it is.
                    in_gap = true;
                } else if block.free & needed != needed {
                    // Nothing that contains this block can do.
                    first = self.aligned(number + self.stride(blocks, number), step);
                    continue 'places;
                }
                dirty += (block.dirty & needed).count_ones();
            }
            if !in_gap {
                return Some((first, dirty));
            }
            first += step;
        }
        None
    }

    /// Marks a run used that is known to be free.
    fn take_at(&mut self, blocks: &impl Blocks, start: u32, units: u32) -> Run {
        let mut zeroed = true;
        each_part(start, units, |number, mask| zeroed &= self.take_units(blocks, number, mask));
        Run { start, zeroed }
    }

    /// Marks the units after a run used, if they are free: the run grows in place. Tells whether the new part
    /// is zero.
    pub fn extend(&mut self, blocks: &impl Blocks, start: u32, units: u32, more: u32) -> Option<bool> {
        let next = start + units;
        let end = next.checked_add(more)?;
        if end.div_ceil(BLOCK_UNITS) > self.blocks {
            return None;
        }
        let mut free = true;
        each_part(next, more, |number, mask| free &= Self::of(blocks, number).free & mask == mask);
        free.then(|| self.take_at(blocks, next, more).zeroed)
    }

    /// Makes a used run free. Its memory may have been written: it counts as dirty.
    pub fn put(&mut self, blocks: &impl Blocks, start: u32, units: u32, now: u32) {
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

    /// Begins a repair: all units of our blocks become free and leave the lists; what each may hold in memory
    /// stays known. `claim` marks what is in use, `relist` ends the repair.
    pub fn unlist_all(&mut self, blocks: &impl Blocks) {
        let Runs { blocks: count, first_number, .. } = *self;
        *self = Runs { blocks: count, first_number, ..Runs::new() };
        let mut number = 0;
        while number < count {
            let block = Self::of(blocks, number);
            let stride = self.stride(blocks, number);
            if block.huge == Huge::Foreign {
                self.lost += u64::from(stride) * u64::from(BLOCK_UNITS);
            } else {
                (block.free, block.list) = (u128::MAX, 0);
            }
            number += stride;
        }
    }

    /// Marks a run used, in a repair.
    pub fn claim(&mut self, blocks: &impl Blocks, start: u32, units: u32) {
        each_part(start, units, |number, mask| self.claim_in(blocks, number, mask));
    }

    /// The same with units of one block.
    pub fn claim_in(&mut self, blocks: &impl Blocks, number: u32, mask: u128) {
        if mask != 0 {
            let block = Self::of(blocks, number);
            block.free &= !mask;
            block.dirty |= mask;
        }
    }

    /// Ends a repair: counts and lists every block of ours. Returns how many have a huge page.
    pub fn relist(&mut self, blocks: &impl Blocks) -> usize {
        let (mut number, mut huge) = (0, 0);
        while number < self.blocks {
            let block = Self::of(blocks, number);
            if block.huge != Huge::Foreign {
                self.used += block.free.count_zeros() as u64;
                self.dirty_free += (block.dirty & block.free).count_ones() as u64;
                huge += usize::from(block.huge == Huge::Yes);
                self.insert(blocks, number);
            }
            number += self.stride(blocks, number);
        }
        huge
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

    /// Marks the free units of a block as used if some may hold memory, so that those can be given back
    /// outside the lock. Returns the units withheld and those of them that may hold memory.
    pub fn withhold_free(&mut self, blocks: &impl Blocks, number: u32) -> (u128, u128) {
        let block = Self::of(blocks, number);
        let (free, dirty) = (block.free, block.dirty & block.free);
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
        if is_since(block.given_back_at, self.too_soon_from) {
            // Some of these may never have been used: in the newest blocks only.
            self.came_back += (mask & !block.dirty).count_ones() as u64;
        }
        let zeroed = self.mark_used(blocks, number, mask);
        self.note_low();
        zeroed
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

#[cfg(any(test, feature = "fake-os"))]
impl Runs {
    /// The blocks that are not in a gap.
    pub fn numbers_of_ours(&self, blocks: &impl Blocks) -> impl Iterator<Item = u32> {
        let next =
            |number: &u32| Some(number + self.stride(blocks, *number)).filter(|next| *next < self.blocks);
        let first = (self.blocks > 0).then_some(0);
        core::iter::successors(first, next).filter(|number| self.is_ours(blocks, *number))
    }

    /// Panics where lists, counters and blocks contradict each other.
    pub fn verify(&self, blocks: &impl Blocks) {
        let (mut used, mut dirty_free, mut listed) = (0, 0, 0);
        for number in self.numbers_of_ours(blocks) {
            let block = Self::of(blocks, number);
            let in_use = !block.free & !self.waiting_of(number);
            assert_eq!(in_use & !block.dirty, 0, "used units count as dirty");
            used += in_use.count_ones() as u64;
            dirty_free += (block.dirty & block.free).count_ones() as u64;
            listed += u32::from(block.free != 0);
        }
        assert_eq!((used, dirty_free), (self.used, self.dirty_free), "what is used and dirty is counted");
        let mut found = 0;
        for (list, head) in self.heads.iter().enumerate() {
            let mut number = *head;
            let mut previous = BLOCK_NONE;
            while number != BLOCK_NONE {
                let block = Self::of(blocks, number);
                let longest = bits::longest_run(block.free) as usize;
                let right = if block.free == u128::MAX && block.dirty == 0 { CLEAN } else { longest };
                assert_eq!((block.list as usize, list, block.previous), (list, right, previous));
                found += 1;
                assert!(found <= listed, "a list bites its tail");
                (previous, number) = (number, block.next);
            }
            if (1..CLEAN).contains(&list) {
                assert_eq!(self.occupied >> (list - 1) & 1 == 1, *head != BLOCK_NONE, "list {list}");
            }
        }
        assert_eq!(found, listed, "every block with free units is listed");
    }
}

/// Whether a tick is not before another: time wraps.
pub fn is_since(tick: u32, start: u32) -> bool {
    tick.wrapping_sub(start) as i32 >= 0
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

#[cfg(test)]
mod tests;
