//! Releasing free units to the system, and the kernel's huge pages under full ones.
//!
//! The system is asked without the lock of the pages; the units are marked used meanwhile. `releasing` is
//! held over each huge page, so that a fork never happens while units are withheld.

use super::runs::Huge;
use super::{
    ALLOCATED_PER_UNIT, HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, MARKS_PER_UNIT, Pages, State, Withheld, bits,
};
use crate::base::PAGE_BYTES;
use crate::base::sync::Ordering;
use crate::base::ticks::{Tick, Ticks};
use crate::class::UNIT_BYTES;
use crate::os::{Guard, Os};

/// A huge page is dense where so many of its bytes are in memory: huge pages must not add to what the heap holds.
const DENSE_BYTES: u64 = (HUGE_PAGE_BYTES - HUGE_PAGE_BYTES / 64) as u64;
/// Huge pages that are looked at for each that the kernel is asked to back by one of its own.
const LOOKS_FOR_EACH_COLLAPSE: u32 = 2;
/// Units whose bits in `allocated` fill a page.
const UNITS_PER_PAGE_OF_BITS: u32 = (PAGE_BYTES / (ALLOCATED_PER_UNIT * size_of::<u32>())) as u32;
/// Units whose marks fill a page.
const UNITS_PER_PAGE_OF_MARKS: u32 = (PAGE_BYTES / MARKS_PER_UNIT) as u32;
/// Heaps below this gain nothing from huge pages.
const LEAST_FOR_HUGE: u32 = 16;

/// The memory that is to be released.
#[derive(Clone, Copy)]
struct Wish {
    /// Of wholly free huge pages only.
    whole_only: bool,
    /// Bytes of free memory that stay.
    keep: usize,
    /// Free for so long.
    ticks: Ticks,
}

/// Huge pages that go in one call of the system: each interrupts the CPUs of all threads, and what is on its way serves nobody.
const MOST_IN_ROW: usize = 8;
/// Huge pages that are looked at while the lock is held.
const BLOCKS_PER_LOOK: u32 = 256;

impl<O: Os> Pages<O> {
    /// Releases the memory of units that have been free for `ticks`, whole empty huge pages first, until at
    /// most `keep` bytes of free memory are left. Returns the bytes released.
    pub fn release(&self, os: &O, keep: usize, ticks: Ticks) -> usize {
        let mut released = 0;
        for whole_only in [true, false] {
            let wish = Wish { whole_only, keep, ticks };
            let mut from = 0;
            while let Some((number, found)) = self.next_to_release(from, wish) {
                let (bytes, count) = match found {
                    false => (0, 1),
                    true if whole_only => self.release_row(os, number, wish),
                    true => (self.release_huge_page(os, number, wish), 1),
                };
                released += bytes;
                from = number + count;
            }
        }
        released
    }

    /// The next huge page from `from` on that has something to release; false with one behind which the search goes
    /// on: the lock is not held for long. None where there is no more to do.
    fn next_to_release(&self, from: u32, wish: Wish) -> Option<(u32, bool)> {
        let state = self.lock();
        let end = state.runs.huge.min(from.saturating_add(BLOCKS_PER_LOOK));
        if from >= end || state.runs.dirty_free as usize * UNIT_BYTES <= wish.keep {
            return None;
        }
        let mut number = from;
        while number < end {
            if self.has_what_is_wished(&state, number, wish) {
                return Some((number, true));
            }
            number += state.runs.stride(&self.huge, number);
        }
        Some((number - 1, false))
    }

    fn has_what_is_wished(&self, state: &Guard<'_, State, O>, number: u32, wish: Wish) -> bool {
        let age = self.clock.load().since(self.block_changed_at(state, number));
        state.runs.dirty_of(&self.huge, number) != 0
            && age >= wish.ticks
            && (!wish.whole_only || state.runs.is_unused(&self.huge, number))
    }

    /// Releases the memory of units from `start` on that are free. Returns the bytes released.
    pub fn release_run(&self, os: &O, start: u32, units: u32) -> usize {
        let end = start + units;
        let of = |number: u32| {
            let (first, last) =
                (start.max(number * HUGE_PAGE_UNITS), end.min((number + 1) * HUGE_PAGE_UNITS));
            bits::mask(first % HUGE_PAGE_UNITS, last - first)
        };
        let numbers = start / HUGE_PAGE_UNITS..=(end - 1) / HUGE_PAGE_UNITS;
        numbers.map(|number| self.release_in_block(os, number, of(number), |_| true)).sum()
    }

    fn release_huge_page(&self, os: &O, number: u32, wish: Wish) -> usize {
        self.release_in_block(os, number, u128::MAX, |state| {
            state.runs.dirty_free as usize * UNIT_BYTES > wish.keep
                && self.has_what_is_wished(state, number, wish)
        })
    }

    /// Releases huge pages that are free as a whole, from one on as many as follow each other. Returns the bytes, and how many huge
    /// pages were looked at.
    fn release_row(&self, os: &O, number: u32, wish: Wish) -> (usize, u32) {
        let mut held = self.releasing.lock();
        let mut state = self.lock();
        let (mut dirty, mut count, end) = ([0u128; MOST_IN_ROW], 0, state.runs.huge);
        for place in &mut dirty {
            let is_one = number + count < end
                && state.runs.dirty_free as usize * UNIT_BYTES > wish.keep
                && self.has_what_is_wished(&state, number + count, wish);
            if !is_one {
                break;
            }
            *place = state.runs.withhold_free(&self.huge, number + count, u128::MAX).1;
            count += 1;
        }
        if count == 0 {
            return (0, 1);
        }
        *held = Withheld { block: number, units: u128::MAX, more: count - 1 };
        drop(state);
        let release = |number: u32, count: u32| {
            os.release(self.address_of(number * HUGE_PAGE_UNITS), count as usize * HUGE_PAGE_BYTES)
        };
        let are_all_gone = release(number, count);
        self.release_bits_of(os, number * HUGE_PAGE_UNITS, count * HUGE_PAGE_UNITS);
        let undumped = are_all_gone && self.leave_out_of_dumps(os, number, count);
        // Of a row that is refused a part may be locked.
        let refused = if are_all_gone { [0; MOST_IN_ROW] } else { dirty };
        let mut refused = refused.into_iter().zip(number..number + count);
        let refused: [u128; MOST_IN_ROW] = core::array::from_fn(|_| match refused.next() {
            Some((dirty, number)) if dirty != 0 && !release(number, 1) => dirty,
            _ => 0,
        });
        let mut state = self.lock();
        let (mut units_gone, pages) = (0, (number..number + count).zip(dirty.into_iter().zip(refused)));
        for (number, (dirty, refused)) in pages {
            if refused != dirty {
                self.note_released(&mut state, number, true, undumped);
            }
            units_gone += (dirty & !refused).count_ones();
            for (units, is_clean) in [(!refused, true), (refused, false)] {
                if units != 0 {
                    state.runs.return_withheld(&self.huge, number, units, is_clean);
                }
            }
        }
        *held = Withheld::NOTHING;
        (units_gone as usize * UNIT_BYTES, count)
    }

    fn release_in_block(
        &self,
        os: &O,
        number: u32,
        of: u128,
        is_wished: impl FnOnce(&Guard<'_, State, O>) -> bool,
    ) -> usize {
        let mut held = self.releasing.lock();
        let mut state = self.lock();
        if !is_wished(&state) {
            return 0;
        }
        let unused = of == u128::MAX && state.runs.is_unused(&self.huge, number);
        let (withheld, dirty) = state.runs.withhold_free(&self.huge, number, of);
        if dirty == 0 {
            return 0;
        }
        *held = Withheld { block: number, units: withheld, more: 0 };
        // SAFETY: huge pages belong to the holder of the state.
        let in_part = !unused && unsafe { (*self.huge.at(number as usize)).huge } == Huge::Yes;
        drop(state);
        if in_part {
            os.split_huge(self.address_of(number * HUGE_PAGE_UNITS));
        }
        self.release_units(os, &mut held, dirty, unused)
    }

    fn block_changed_at(&self, _held: &Guard<'_, State, O>, number: u32) -> Tick {
        // SAFETY: huge pages belong to the holder of the state.
        unsafe { (*self.huge.at(number as usize)).changed_at }
    }

    /// Releases the dirty ones of a huge page's withheld units to the system and makes all of them free again.
    fn release_units(&self, os: &O, held: &mut Withheld, dirty: u128, unused: bool) -> usize {
        let Withheld { block: number, units: withheld, .. } = *held;
        let (units_per_page, mut refused) = ((os.page_bytes() / UNIT_BYTES).max(1) as u32, dirty);
        // A system's page may be several units: only those that are withheld as a whole can go.
        bits::each_run(whole(withheld, dirty, units_per_page), |start, length| {
            let address = self.address_of(number * HUGE_PAGE_UNITS + start);
            if os.release(address, length as usize * UNIT_BYTES) {
                refused &= !bits::mask(start, length);
            }
        });
        self.release_bits(os, number, withheld, dirty);
        let undumped = unused && refused == 0 && self.leave_out_of_dumps(os, number, 1);
        let mut state = self.lock();
        if refused != dirty {
            self.note_released(&mut state, number, unused, undumped);
        }
        for (units, is_clean) in [(withheld & !refused, true), (refused, false)] {
            if units != 0 {
                state.runs.return_withheld(&self.huge, number, units, is_clean);
            }
        }
        *held = Withheld::NOTHING;
        (dirty & !refused).count_ones() as usize * UNIT_BYTES
    }

    /// Releases the pages of `allocated` and of the marks that are about withheld units only: no block lies there, so nobody
    /// changes them, and zero says so too.
    fn release_bits(&self, os: &O, number: u32, withheld: u128, dirty: u128) {
        if os.page_bytes() > PAGE_BYTES {
            return;
        }
        bits::each_run(whole(withheld, dirty, UNITS_PER_PAGE_OF_BITS), |start, length| {
            let first = self.allocated.at((number * HUGE_PAGE_UNITS + start) as usize * ALLOCATED_PER_UNIT);
            os.release(first.addr(), (length / UNITS_PER_PAGE_OF_BITS) as usize * PAGE_BYTES);
        });
        if self.keeps_marks() {
            // A policy then says of a second free there that nobody has such a block, not that it was freed.
            bits::each_run(whole(withheld, dirty, UNITS_PER_PAGE_OF_MARKS), |start, length| {
                let first = self.marks.at((number * HUGE_PAGE_UNITS + start) as usize * MARKS_PER_UNIT);
                os.release(first.addr(), (length / UNITS_PER_PAGE_OF_MARKS) as usize * PAGE_BYTES);
            });
        }
    }

    /// The same of whole huge pages.
    fn release_bits_of(&self, os: &O, first: u32, units: u32) {
        if os.page_bytes() > PAGE_BYTES {
            return;
        }
        let bits = self.allocated.at(first as usize * ALLOCATED_PER_UNIT);
        os.release(bits.addr(), (units / UNITS_PER_PAGE_OF_BITS) as usize * PAGE_BYTES);
        if self.keeps_marks() {
            let marks = self.marks.at(first as usize * MARKS_PER_UNIT);
            os.release(marks.addr(), (units / UNITS_PER_PAGE_OF_MARKS) as usize * PAGE_BYTES);
        }
    }

    fn note_released(&self, held: &mut Guard<'_, State, O>, number: u32, unused: bool, undumped: bool) {
        if undumped {
            self.note_undumped(held, number);
        }
        // SAFETY: huge pages belong to the holder of the state.
        let block = unsafe { &mut *self.huge.at(number as usize) };
        block.released_at = self.clock.load();
        if block.huge == Huge::Yes {
            self.huge_backed.fetch_sub(1, Ordering::Relaxed);
        }
        block.huge = if unused { Huge::No } else { Huge::Broken };
    }

    /// Notes that pages inside a used huge page were released: the kernel's, if it had one, is in pieces.
    pub fn note_broken(&self, unit: u32) {
        let _held = self.lock();
        // SAFETY: huge pages belong to the holder of the state.
        let block = unsafe { &mut *self.huge.at((unit / HUGE_PAGE_UNITS) as usize) };
        if block.huge == Huge::Yes {
            self.huge_backed.fetch_sub(1, Ordering::Relaxed);
        }
        block.huge = Huge::Broken;
    }

    /// False where the process or the system has switched huge pages off.
    pub fn may_have_huge_pages(&self) -> bool {
        self.allow_huge_pages.load(Ordering::Relaxed)
    }

    /// Puts up to `most` dense huge pages that have been full for `ticks` onto the kernel's; returns how many.
    /// Looks at a few huge pages each time, one after the other: to ask the system what is in memory takes some
    /// microseconds a huge page.
    pub fn collapse_dense(&self, os: &O, most: u32, ticks: Ticks) -> u32 {
        let mut done = 0;
        for _ in 0..LOOKS_FOR_EACH_COLLAPSE * most {
            let Some(number) = self.next_full_since(ticks) else { break };
            let address = self.address_of(number * HUGE_PAGE_UNITS);
            if os
                .resident_bytes(address, HUGE_PAGE_BYTES)
                .is_none_or(|resident| (resident as u64) < DENSE_BYTES)
            {
                continue;
            }
            // A thread that takes or frees blocks there meanwhile is not disturbed: the contents stay.
            let is_filled = os.collapse(address, HUGE_PAGE_BYTES);
            self.note_collapse(number, is_filled);
            done += 1;
            if done == most {
                break;
            }
        }
        done
    }

    /// Notes what the kernel said of a huge page that was full before it was asked: since then units of it may have been freed,
    /// given back, and taken as a new huge page.
    fn note_collapse(&self, number: u32, is_filled: bool) {
        // First the threads that give memory back note theirs: the kernel may have filled it again.
        let _in_turn = self.releasing.lock();
        let mut state = self.lock();
        // SAFETY: huge pages belong to the holder of the state; no other reference lives.
        let (before, is_full) = unsafe {
            let block = &*self.huge.at(number as usize);
            (block.huge, block.free == 0)
        };
        let after = match (is_filled, before) {
            // A part of a huge page has a mapping of its own, across whose end the kernel has none.
            (true, _) if ![0, u128::MAX].contains(&self.left_out_of(&state, number)) => Huge::Broken,
            (true, _) => Huge::Yes,
            (false, Huge::No) if is_full => Huge::Broken,
            (false, _) => before,
        };
        if is_filled {
            // Units that were given back before the kernel filled them hold memory again; others are given back once more, in vain.
            state.runs.note_whole(&self.huge, number);
            self.limits.footprint.note(self.footprint_of(&state));
        }
        // SAFETY: as above.
        unsafe { (*self.huge.at(number as usize)).huge = after };
        let (was, is) = (before == Huge::Yes, after == Huge::Yes);
        self.huge_backed.fetch_add(usize::from(is && !was), Ordering::Relaxed);
        self.huge_backed.fetch_sub(usize::from(was && !is), Ordering::Relaxed);
    }

    /// The next one in turn that the kernel could back by a huge page; none in the rest of this round.
    fn next_full_since(&self, ticks: Ticks) -> Option<u32> {
        let state = self.lock();
        let (blocks, from) = (state.runs.huge, self.next_collapse.load(Ordering::Relaxed));
        let end = blocks.min(from.saturating_add(BLOCKS_PER_LOOK));
        let mut number = from;
        while number < end && !self.is_full_since(&state, number, ticks) {
            number += state.runs.stride(&self.huge, number);
        }
        let found = (number < end).then_some(number);
        let next = found.map_or(number, |number| number + 1);
        self.next_collapse.store(if next >= blocks { 0 } else { next }, Ordering::Relaxed);
        found.filter(|_| blocks >= LEAST_FOR_HUGE)
    }

    fn is_full_since(&self, _held: &Guard<'_, State, O>, number: u32, ticks: Ticks) -> bool {
        // SAFETY: huge pages belong to the holder of the state.
        let block = unsafe { &*self.huge.at(number as usize) };
        let age = self.clock.load().since(block.changed_at);
        block.free == 0 && block.dirty != 0 && block.huge == Huge::No && age >= ticks
    }
}

/// Of the groups of so many units, a power of two, those that are withheld as a whole and have something
/// dirty.
fn whole(withheld: u128, dirty: u128, group: u32) -> u128 {
    let groups = (0..HUGE_PAGE_UNITS / group.max(1)).map(|number| bits::mask(number * group, group));
    groups.filter(|units| withheld & units == *units && dirty & units != 0).fold(0, |all, units| all | units)
}

#[cfg(all(test, not(loom)))]
mod tests;
