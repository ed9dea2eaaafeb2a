//! Where a run is taken: inside one block, or across several.

use super::{BLOCK_NONE, BLOCK_UNITS, Blocks, CLEAN, Run, Runs, each_part};
use crate::pages::bits;

/// A heap of so few blocks may leave them unused: 8 MiB of addresses.
const FEW_BLOCKS: u32 = 4;

/// Free places for a run of more than a block that are compared, and how far behind the first they begin.
const PLACES_COMPARED: u32 = 32;
const COMPARED_WITHIN: u32 = 256;

impl Runs {
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

    /// A run with all of the room behind it and of the gap before it, or none.
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
        Some(best)
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
        self.are_free(blocks, next, more).then(|| self.take_at(blocks, next, more).zeroed)
    }

    /// Whether all of these units are free.
    pub fn are_free(&self, blocks: &impl Blocks, start: u32, units: u32) -> bool {
        let mut free = true;
        each_part(start, units, |number, mask| free &= Self::of(blocks, number).free & mask == mask);
        free
    }

    /// How many blocks at the end of the range are wholly free.
    pub fn free_at_end(&self, blocks: &impl Blocks) -> u32 {
        let is_free = |number: &u32| Self::of(blocks, *number).free == u128::MAX;
        (0..self.blocks).rev().take_while(is_free).count() as u32
    }
}
