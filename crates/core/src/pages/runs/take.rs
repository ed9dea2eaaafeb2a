//! Taking a run: inside one block, or across several.

use super::{BLOCK_NONE, BLOCK_UNITS, Blocks, CLEAN, Run, Runs, each_part};
use crate::pages::bits;

/// A heap of so few blocks may leave them unused: 8 MiB of addresses.
const FEW_BLOCKS: u32 = 4;

/// Free places for a run of more than a block that are compared, and how far behind the first they begin.
const PLACES_COMPARED: u32 = 32;
const COMPARED_WITHIN: u32 = 256;
/// Rows of free blocks that are looked at for one that has an aligned block or enough behind it.
const PLACES_TRIED: u32 = 32;

/// The needs of a run of more than a block: whole blocks, so many units behind them, and that the first block's
/// address is a multiple of `step` blocks.
#[derive(Clone, Copy)]
struct Wanted {
    whole: u32,
    tail: u32,
    step: u32,
}

impl Wanted {
    fn of(units: u32, align: u32) -> Self {
        let (whole, tail) = (units / BLOCK_UNITS, units % BLOCK_UNITS);
        let (whole, tail) = if whole == 0 { (1, 0) } else { (whole, tail) };
        Wanted { whole, tail, step: (align / BLOCK_UNITS).max(1) }
    }
}

impl Runs {
    /// Finds `units` free units starting at a multiple of `align` units and marks them used.
    pub fn take(&mut self, blocks: &impl Blocks, units: u32, align: u32) -> Option<Run> {
        if units.checked_add(align - 1)? <= BLOCK_UNITS {
            let place = self.place_inside(blocks, units, align)?;
            Some(self.take_inside(blocks, units, place))
        } else if units.max(align) <= BLOCK_UNITS {
            let place = self.place_aligned(blocks, units, align)?;
            Some(self.take_inside(blocks, units, place))
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
    /// the first used. If there is space, as much is left before them: for what lies there to grow. If
    /// there is less, half of the room is better than none.
    pub fn take_with_room(&mut self, blocks: &impl Blocks, units: u32, room: u32) -> Option<Run> {
        let half = |room: &u32| Some(room / 2).filter(|half| *half > units);
        let gaps = |room| [(room, room), (room, 0)];
        core::iter::successors(Some(room), half)
            .flat_map(gaps)
            .find_map(|(room, gap)| self.take_spaced(blocks, units, room, gap))
    }

    /// A run with all of the room behind it and of the gap before it, or none.
    fn take_spaced(&mut self, blocks: &impl Blocks, units: u32, room: u32, gap: u32) -> Option<Run> {
        let length = room.checked_add(gap).filter(|length| *length <= BLOCK_UNITS)?;
        let (number, start) = self.place_inside(blocks, length, 1)?;
        Some(self.take_inside(blocks, units, (number, start + gap)))
    }

    /// Takes a run at a block and a unit there.
    fn take_inside(&mut self, blocks: &impl Blocks, units: u32, (number, start): (u32, u32)) -> Run {
        let zeroed = self.take_units(blocks, number, bits::mask(start, units));
        Run { start: number * BLOCK_UNITS + start, zeroed }
    }

    /// The block of the shortest run that is long enough, and the first unit there.
    fn place_inside(&self, blocks: &impl Blocks, units: u32, align: u32) -> Option<(u32, u32)> {
        let long_enough = self.occupied & (u128::MAX << (units + align - 2));
        let list = if long_enough != 0 { long_enough.trailing_zeros() as usize + 1 } else { CLEAN };
        self.place_in(blocks, list, units, align)
    }

    /// The same where a run that is long enough may have no aligned beginning: the first block of each list is looked at, up to
    /// that of blocks that are wholly free.
    fn place_aligned(&self, blocks: &impl Blocks, units: u32, align: u32) -> Option<(u32, u32)> {
        let mut lists = self.occupied & (u128::MAX << (units - 1));
        while lists != 0 {
            let place = self.place_in(blocks, lists.trailing_zeros() as usize + 1, units, align);
            if place.is_some() {
                return place;
            }
            lists &= lists - 1;
        }
        self.place_in(blocks, CLEAN, units, align)
    }

    /// In the first block of a list.
    fn place_in(&self, blocks: &impl Blocks, list: usize, units: u32, align: u32) -> Option<(u32, u32)> {
        let number = self.heads.get(list).copied().filter(|head| *head != BLOCK_NONE)?;
        let start = bits::find_run(Self::of(blocks, number).free, units, align)?;
        Some((number, start))
    }

    /// A run of whole blocks and the beginning of one more: the first place that is free, or one not far behind
    /// it with clearly more memory that is there already. New memory costs a fault for each page, and stays.
    fn take_across(&mut self, blocks: &impl Blocks, units: u32, align: u32) -> Option<Run> {
        let first = self.place_across(blocks, units, align)?;
        Some(self.take_at(blocks, first * BLOCK_UNITS, units))
    }

    /// A run of whole blocks with as many free units behind it.
    pub fn take_with_double(&mut self, blocks: &impl Blocks, units: u32) -> Option<Run> {
        let first = self.place_across(blocks, units.checked_mul(2)?, 1)?;
        Some(self.take_at(blocks, first * BLOCK_UNITS, units))
    }

    /// The first block of such a place.
    fn place_across(&self, blocks: &impl Blocks, units: u32, align: u32) -> Option<u32> {
        let wanted = Wanted::of(units, align);
        let clearly = u64::from((units / 4).max(1));
        let mut best = self.free_across(blocks, 0, wanted)?;
        let mut most = self.dirty_across(blocks, best, units);
        let (mut from, end) = (best + wanted.step, best + COMPARED_WITHIN);
        for _ in 1..PLACES_COMPARED {
            // Nowhere may there be more than there is.
            if most + clearly > self.dirty_free.min(units.into()) {
                break;
            }
            let next = self.free_across(blocks, from, wanted).filter(|first| *first <= end);
            let Some(first) = next else { break };
            let dirty = self.dirty_across(blocks, first, units);
            if dirty >= most + clearly {
                (best, most) = (first, dirty);
            }
            from = first + wanted.step;
        }
        Some(best)
    }

    /// The first block from `number` on whose address is a multiple of `step` blocks, a power of two.
    fn aligned(&self, number: u32, step: u32) -> u32 {
        let above = (self.first_number.wrapping_add(number)).wrapping_neg() & (step - 1);
        number.saturating_add(above)
    }

    /// The next free place that begins with a block from `from` on. The nearest ones are tried; if none is right, one
    /// that is long enough for certain.
    fn free_across(&self, blocks: &impl Blocks, from: u32, wanted: Wanted) -> Option<u32> {
        let Wanted { whole, tail, step } = wanted;
        let mut at = self.aligned(from, step);
        for _ in 0..PLACES_TRIED {
            let row = self.free_row(blocks, at, whole)?;
            let first = self.aligned(row, step);
            if first == row {
                if self.begins_free(blocks, row + whole, tail) {
                    return Some(row);
                }
                // The next block is in use, or the end.
                at = self.aligned(row + whole, step);
            } else {
                at = first;
            }
        }
        let enough = whole.checked_add(step - 1)?.checked_add(u32::from(tail != 0))?;
        self.free_row(blocks, at, enough).map(|row| self.aligned(row, step))
    }

    /// Whether a block begins with so many free units.
    fn begins_free(&self, blocks: &impl Blocks, number: u32, units: u32) -> bool {
        let needed = || bits::mask(0, units);
        units == 0 || number < self.blocks && Self::of(blocks, number).free & needed() == needed()
    }

    /// How many units of a free run may hold memory.
    fn dirty_across(&self, blocks: &impl Blocks, first: u32, units: u32) -> u64 {
        let mut dirty = 0;
        each_part(first * BLOCK_UNITS, units, |number, mask| {
            dirty += u64::from((Self::of(blocks, number).dirty & mask).count_ones());
        });
        dirty
    }

    /// Marks a run used that is known to be free.
    fn take_at(&mut self, blocks: &impl Blocks, start: u32, units: u32) -> Run {
        let mut zeroed = true;
        each_part(start, units, |number, mask| zeroed &= self.take_units(blocks, number, mask));
        Run { start, zeroed }
    }

    /// Takes a run that is known to be free.
    #[cfg(test)]
    pub fn take_at_for_test(&mut self, blocks: &impl Blocks, start: u32, units: u32) {
        self.take_at(blocks, start, units);
    }

    /// Marks the units after a run used, if they are free: the run grows in place. Tells whether the new part
    /// is zero.
    pub fn extend(&mut self, blocks: &impl Blocks, start: u32, units: u32, more: u32) -> Option<bool> {
        let next = start + units;
        let end = next.checked_add(more)?;
        if end.div_ceil(BLOCK_UNITS) > self.blocks {
            return None;
        }
        self.are_free(blocks, next, more).then(|| self.take_at(blocks, next, more).zeroed)
    }

    /// Whether all of these units are free.
    pub fn are_free(&self, blocks: &impl Blocks, start: u32, units: u32) -> bool {
        let mut free = true;
        each_part(start, units, |number, mask| free &= Self::of(blocks, number).free & mask == mask);
        free
    }
}
