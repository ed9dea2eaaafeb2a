//! Taking a run: inside one huge page, or across several.

use super::{BLOCK_NONE, CLEAN, HUGE_PAGE_UNITS, HugeTable, Run, Runs, each_part};
use crate::pages::bits;

/// A heap of so few huge pages may leave them unused: 8 MiB of addresses.
const FEW_BLOCKS: u32 = 4;

/// Free places for a run of more than a huge page that are compared, and how far behind the first they begin.
const PLACES_COMPARED: u32 = 32;
const COMPARED_WITHIN: u32 = 256;
/// Rows of free huge pages that are looked at for one that has an aligned huge page or enough behind it.
const PLACES_TRIED: u32 = 32;

/// The needs of a run of more than a huge page: whole huge pages, so many units behind them, and that the first huge page's
/// address is a multiple of `step` huge pages.
#[derive(Clone, Copy)]
struct Wanted {
    whole: u32,
    tail: u32,
    step: u32,
}

impl Wanted {
    fn of(units: u32, align: u32) -> Self {
        let (whole, tail) = (units / HUGE_PAGE_UNITS, units % HUGE_PAGE_UNITS);
        let (whole, tail) = if whole == 0 { (1, 0) } else { (whole, tail) };
        Wanted { whole, tail, step: (align / HUGE_PAGE_UNITS).max(1) }
    }
}

impl Runs {
    /// Finds `units` free units starting at a multiple of `align` units and marks them used.
    pub fn take(&mut self, huge: &impl HugeTable, units: u32, align: u32) -> Option<Run> {
        if units.checked_add(align - 1)? <= HUGE_PAGE_UNITS {
            let place = self.place_inside(huge, units, align)?;
            Some(self.take_inside(huge, units, place))
        } else if units.max(align) <= HUGE_PAGE_UNITS {
            let place = self.place_aligned(huge, units, align)?;
            Some(self.take_inside(huge, units, place))
        } else {
            self.take_across(huge, units, align)
        }
    }

    /// Whether there is little that is unused: a few huge pages, or at most half of the range.
    pub fn is_well_used(&self) -> bool {
        let units = u64::from(self.huge) * u64::from(HUGE_PAGE_UNITS) - self.lost;
        self.huge < FEW_BLOCKS || self.used * 2 >= units
    }

    /// Whether so many units, at most those of a huge page, are free in a row inside one.
    pub fn has_run(&self, huge: &impl HugeTable, units: u32) -> bool {
        self.place_inside(huge, units, 1).is_some()
    }

    /// Finds `units` free units with further free ones behind them, `room` in all, inside one huge page; marks
    /// the first used. If there is space, as much is left before them: for what lies there to grow. If
    /// there is less, half of the room is better than none.
    pub fn take_with_room(&mut self, huge: &impl HugeTable, units: u32, room: u32) -> Option<Run> {
        let half = |room: &u32| Some(room / 2).filter(|half| *half > units);
        let gaps = |room| [(room, room), (room, 0)];
        core::iter::successors(Some(room), half)
            .flat_map(gaps)
            .find_map(|(room, gap)| self.take_spaced(huge, units, room, gap))
    }

    /// A run with all of the room behind it and of the gap before it, or none.
    fn take_spaced(&mut self, huge: &impl HugeTable, units: u32, room: u32, gap: u32) -> Option<Run> {
        let length = room.checked_add(gap).filter(|length| *length <= HUGE_PAGE_UNITS)?;
        let (number, start) = self.place_inside(huge, length, 1)?;
        Some(self.take_inside(huge, units, (number, start + gap)))
    }

    /// Takes a run at a huge page and a unit there.
    fn take_inside(&mut self, huge: &impl HugeTable, units: u32, (number, start): (u32, u32)) -> Run {
        let zeroed = self.take_units(huge, number, bits::mask(start, units));
        Run { start: number * HUGE_PAGE_UNITS + start, zeroed }
    }

    /// The huge page of the shortest run that is long enough, and the first unit there.
    fn place_inside(&self, huge: &impl HugeTable, units: u32, align: u32) -> Option<(u32, u32)> {
        let long_enough = self.occupied & (u128::MAX << (units + align - 2));
        let list = if long_enough != 0 { long_enough.trailing_zeros() as usize + 1 } else { CLEAN };
        self.place_in(huge, list, units, align)
    }

    /// The same where a run that is long enough may have no aligned beginning: the first huge page of each list is looked at, up to
    /// that of huge pages that are wholly free.
    fn place_aligned(&self, huge: &impl HugeTable, units: u32, align: u32) -> Option<(u32, u32)> {
        let mut lists = self.occupied & (u128::MAX << (units - 1));
        while lists != 0 {
            let place = self.place_in(huge, lists.trailing_zeros() as usize + 1, units, align);
            if place.is_some() {
                return place;
            }
            lists &= lists - 1;
        }
        self.place_in(huge, CLEAN, units, align)
    }

    /// In the first huge page of a list.
    fn place_in(&self, huge: &impl HugeTable, list: usize, units: u32, align: u32) -> Option<(u32, u32)> {
        let number = self.heads.get(list).copied().filter(|head| *head != BLOCK_NONE)?;
        let start = bits::find_run(Self::of(huge, number).free, units, align)?;
        Some((number, start))
    }

    /// A run of whole huge pages and the beginning of one more: the first place that is free, or one not far behind
    /// it with clearly more memory that is there already. New memory costs a fault for each page, and stays.
    fn take_across(&mut self, huge: &impl HugeTable, units: u32, align: u32) -> Option<Run> {
        let first = self.place_across(huge, units, align)?;
        Some(self.take_at(huge, first * HUGE_PAGE_UNITS, units))
    }

    /// A run of whole huge pages with as many free units behind it.
    pub fn take_with_double(&mut self, huge: &impl HugeTable, units: u32) -> Option<Run> {
        let first = self.place_across(huge, units.checked_mul(2)?, 1)?;
        Some(self.take_at(huge, first * HUGE_PAGE_UNITS, units))
    }

    /// The first huge page of such a place.
    fn place_across(&self, huge: &impl HugeTable, units: u32, align: u32) -> Option<u32> {
        let wanted = Wanted::of(units, align);
        let clearly = u64::from((units / 4).max(1));
        let mut best = self.free_across(huge, 0, wanted)?;
        let mut most = self.dirty_across(huge, best, units);
        let (mut from, end) = (best + wanted.step, best + COMPARED_WITHIN);
        for _ in 1..PLACES_COMPARED {
            // Nowhere may there be more than there is.
            if most + clearly > self.dirty_free.min(units.into()) {
                break;
            }
            let next = self.free_across(huge, from, wanted).filter(|first| *first <= end);
            let Some(first) = next else { break };
            let dirty = self.dirty_across(huge, first, units);
            if dirty >= most + clearly {
                (best, most) = (first, dirty);
            }
            from = first + wanted.step;
        }
        Some(best)
    }

    /// The first huge page from `number` on whose address is a multiple of `step` huge pages, a power of two.
    fn aligned(&self, number: u32, step: u32) -> u32 {
        let above = (self.first_number.wrapping_add(number)).wrapping_neg() & (step - 1);
        number.saturating_add(above)
    }

    /// The next free place that begins with a huge page from `from` on. The nearest ones are tried; if none is right, one
    /// that is long enough for certain.
    fn free_across(&self, huge: &impl HugeTable, from: u32, wanted: Wanted) -> Option<u32> {
        let Wanted { whole, tail, step } = wanted;
        let mut at = self.aligned(from, step);
        for _ in 0..PLACES_TRIED {
            let row = self.free_row(huge, at, whole)?;
            let first = self.aligned(row, step);
            if first == row {
                if self.begins_free(huge, row + whole, tail) {
                    return Some(row);
                }
                // The next huge page is in use, or the end.
                at = self.aligned(row + whole, step);
            } else {
                at = first;
            }
        }
        let enough = whole.checked_add(step - 1)?.checked_add(u32::from(tail != 0))?;
        self.free_row(huge, at, enough).map(|row| self.aligned(row, step))
    }

    /// Whether a huge page begins with so many free units.
    fn begins_free(&self, huge: &impl HugeTable, number: u32, units: u32) -> bool {
        let needed = || bits::mask(0, units);
        units == 0 || number < self.huge && Self::of(huge, number).free & needed() == needed()
    }

    /// How many units of a free run may hold memory.
    fn dirty_across(&self, huge: &impl HugeTable, first: u32, units: u32) -> u64 {
        let mut dirty = 0;
        each_part(first * HUGE_PAGE_UNITS, units, |number, mask| {
            dirty += u64::from((Self::of(huge, number).dirty & mask).count_ones());
        });
        dirty
    }

    /// Marks a run used that is known to be free.
    fn take_at(&mut self, huge: &impl HugeTable, start: u32, units: u32) -> Run {
        let mut zeroed = true;
        each_part(start, units, |number, mask| zeroed &= self.take_units(huge, number, mask));
        Run { start, zeroed }
    }

    /// Takes a run that is known to be free.
    #[cfg(test)]
    pub fn take_at_for_test(&mut self, huge: &impl HugeTable, start: u32, units: u32) {
        self.take_at(huge, start, units);
    }

    /// Marks the units after a run used, if they are free: the run grows in place. Tells whether the new part
    /// is zero.
    pub fn extend(&mut self, huge: &impl HugeTable, start: u32, units: u32, more: u32) -> Option<bool> {
        let next = start + units;
        let end = next.checked_add(more)?;
        if end.div_ceil(HUGE_PAGE_UNITS) > self.huge {
            return None;
        }
        self.are_free(huge, next, more).then(|| self.take_at(huge, next, more).zeroed)
    }

    /// Whether all of these units are free.
    pub fn are_free(&self, huge: &impl HugeTable, start: u32, units: u32) -> bool {
        let mut free = true;
        each_part(start, units, |number, mask| free &= Self::of(huge, number).free & mask == mask);
        free
    }
}
