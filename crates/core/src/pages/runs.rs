//! Free runs of units in huge pages: the fullest huge page that can serve a request serves it.
//!
//! A huge page is listed by its longest free run. The shortest run that is long enough comes from a huge page that is
//! fuller than most, so emptier huge pages drain and can be given back whole.

mod gaps;
mod index;
mod mend;
mod take;

pub use index::{GROUP, Group};

use super::bits::{self, HUGE_PAGE_UNITS};
use crate::base::ticks::Tick;
use core::sync::atomic::{Ordering, compiler_fence};

pub const BLOCK_NONE: u32 = u32::MAX;

/// One huge page. All fields belong to the lock of the pages. A huge page that is all zero is not ours.
#[repr(C, align(64))]
pub struct HugePage {
    /// Units that are ours and belong to no span.
    pub free: u128,
    /// Units that may hold memory: used once and not given back since.
    pub dirty: u128,
    /// In the first huge page of a gap: how many huge pages it has.
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

/// The kernel's backing of a huge page, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Huge {
    /// The huge page is not ours: somebody else had mapped something there, or before or behind it.
    Foreign = 0,
    No,
    Yes,
    /// It was given back in part since: it will not be tried again while it is in use.
    Broken,
}

impl HugePage {
    const FOREIGN: HugePage = HugePage {
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

/// The list of huge pages that are wholly free and hold no memory.
const CLEAN: usize = HUGE_PAGE_UNITS as usize + 1;
const LISTS: usize = CLEAN + 1;

/// A run of free units that was found, and whether its memory is known to read as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start: u32,
    pub zeroed: bool,
}

/// The lists of huge pages by free run, over a table of huge pages that somebody else owns.
pub struct Runs {
    heads: [u32; LISTS],
    /// Bit n - 1: list n has a huge page.
    occupied: u128,
    /// Huge pages in the table; all of them are mapped, or lie in a gap.
    pub huge: u32,
    /// The number of the huge page that lies at address 0: whole huge pages are aligned by their addresses.
    pub first_number: u32,
    /// The first units of a huge page of ours that wait until all others are used: a huge page and how many.
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
    /// The first of the wholly free huge pages without memory that came into use since somebody asked last.
    fresh: Option<u32>,
    /// The least of `dirty_free` since somebody asked last: nobody needed so much.
    low: u64,
}

/// How the lists reach their huge pages.
///
/// # Safety
/// `huge page` returns, for every number below `Runs::huge pages`, a huge page that only the holder of the lists uses; `group` the same
/// for its number in groups.
pub unsafe trait HugeTable {
    fn huge_page(&self, number: u32) -> *mut HugePage;
    fn group(&self, number: u32) -> *mut Group;
}

impl Runs {
    pub const fn new() -> Self {
        Runs {
            heads: [BLOCK_NONE; LISTS],
            occupied: 0,
            huge: 0,
            first_number: 0,
            waiting: (0, 0),
            dirty_free: 0,
            used: 0,
            lost: 0,
            came_back: 0,
            // Later than "never".
            too_soon_from: Tick(1),
            fresh: None,
            low: 0,
        }
    }

    // The exclusive right comes from the trait's promise, which the compiler cannot see.
    #[allow(clippy::mut_from_ref)]
    fn of(huge: &impl HugeTable, number: u32) -> &mut HugePage {
        // SAFETY: by the trait's promise; one reference lives at a time in each function below.
        unsafe { &mut *huge.huge_page(number) }
    }

    /// Adds the next huge page of the table: free and clean.
    pub fn add_huge_page(&mut self, huge: &impl HugeTable) {
        let number = self.huge;
        *Self::of(huge, number) = HugePage { free: u128::MAX, huge: Huge::No, ..HugePage::FOREIGN };
        self.count_blocks(1);
        self.insert(huge, number);
    }

    /// After their entry: a child that is made between knows nothing of them.
    fn count_blocks(&mut self, count: u32) {
        compiler_fence(Ordering::Release);
        self.huge += count;
        compiler_fence(Ordering::Release);
    }

    /// Makes a used run free. Its memory may have been written: it counts as dirty.
    pub fn put(&mut self, huge: &impl HugeTable, start: u32, units: u32, now: Tick) {
        each_part(start, units, |number, mask| {
            self.remove(huge, number);
            let huge_page = Self::of(huge, number);
            huge_page.free |= mask;
            huge_page.changed_at = now;
            self.used -= mask.count_ones() as u64;
            self.dirty_free += mask.count_ones() as u64;
            self.insert(huge, number);
        });
    }

    /// True if no unit of the huge page is in use.
    pub fn is_unused(&self, huge: &impl HugeTable, number: u32) -> bool {
        Self::of(huge, number).free == u128::MAX
    }

    /// Bytes of free memory that a huge page may hold.
    pub fn dirty_of(&self, huge: &impl HugeTable, number: u32) -> u128 {
        let huge_page = Self::of(huge, number);
        huge_page.dirty & huge_page.free
    }

    /// Marks the free ones of some units of a huge page as used if any may hold memory, so that those can be given back
    /// outside the lock. Returns the units withheld and those of them that may hold memory.
    pub fn withhold_free(&mut self, huge: &impl HugeTable, number: u32, of: u128) -> (u128, u128) {
        let huge_page = Self::of(huge, number);
        let (free, dirty) = (huge_page.free & of, huge_page.dirty & huge_page.free & of);
        if dirty == 0 {
            return (0, 0);
        }
        self.mark_used(huge, number, free);
        (free, dirty)
    }

    /// Ends `withhold_free`: the units are free again, and clean if the system took them.
    pub fn return_withheld(&mut self, huge: &impl HugeTable, number: u32, mask: u128, clean: bool) {
        self.remove(huge, number);
        let huge_page = Self::of(huge, number);
        huge_page.free |= mask;
        if clean {
            huge_page.dirty &= !mask;
        }
        self.used -= mask.count_ones() as u64;
        self.dirty_free += (huge_page.dirty & mask).count_ones() as u64;
        self.insert(huge, number);
        self.note_low();
    }

    /// Marks units used that the program will have, and looks whether it gets memory that it just lost.
    fn take_units(&mut self, huge: &impl HugeTable, number: u32, mask: u128) -> bool {
        let huge_page = Self::of(huge, number);
        if huge_page.free == u128::MAX && huge_page.dirty == 0 {
            self.fresh = self.fresh.or(Some(number));
        }
        if huge_page.released_at.is_since(self.too_soon_from) {
            // Some of these may never have been used: in the newest huge pages only.
            self.came_back += (mask & !huge_page.dirty).count_ones() as u64;
        }
        let zeroed = self.mark_used(huge, number, mask);
        self.note_low();
        zeroed
    }

    /// The first huge page that came into use without any memory since this was asked last.
    pub fn take_fresh(&mut self) -> Option<u32> {
        self.fresh.take()
    }

    /// Notes that a huge page of ours is one huge page now: its free units hold memory too.
    pub fn note_whole(&mut self, huge: &impl HugeTable, number: u32) {
        self.remove(huge, number);
        let huge_page = Self::of(huge, number);
        let more = (huge_page.free & !huge_page.dirty).count_ones() as u64;
        if huge_page.released_at.is_since(self.too_soon_from) {
            self.came_back += more;
        }
        self.dirty_free += more;
        huge_page.dirty = u128::MAX;
        huge_page.huge = Huge::Yes;
        self.insert(huge, number);
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
    fn mark_used(&mut self, huge: &impl HugeTable, number: u32, mask: u128) -> bool {
        self.remove(huge, number);
        let huge_page = Self::of(huge, number);
        debug_assert!(huge_page.free & mask == mask);
        let was_dirty = huge_page.dirty & mask;
        huge_page.free &= !mask;
        huge_page.dirty |= mask;
        self.used += mask.count_ones() as u64;
        self.dirty_free -= was_dirty.count_ones() as u64;
        self.insert(huge, number);
        was_dirty == 0
    }

    fn insert(&mut self, huge: &impl HugeTable, number: u32) {
        let huge_page = Self::of(huge, number);
        let longest = bits::longest_run(huge_page.free) as usize;
        let list = if huge_page.free == u128::MAX && huge_page.dirty == 0 { CLEAN } else { longest };
        huge_page.list = list as u8;
        huge_page.previous = BLOCK_NONE;
        let is_free = huge_page.free == u128::MAX;
        self.note_free(huge, number, is_free);
        let huge_page = Self::of(huge, number);
        if list == 0 {
            return;
        }
        let Some(head) = self.heads.get_mut(list) else { return };
        huge_page.next = *head;
        if *head != BLOCK_NONE {
            Self::of(huge, *head).previous = number;
        }
        *head = number;
        if list != CLEAN {
            self.occupied |= 1 << (list - 1);
        }
    }

    fn remove(&mut self, huge: &impl HugeTable, number: u32) {
        let huge_page = Self::of(huge, number);
        let (list, next, previous) = (huge_page.list as usize, huge_page.next, huge_page.previous);
        if list == 0 {
            return;
        }
        if next != BLOCK_NONE {
            Self::of(huge, next).previous = previous;
        }
        if previous != BLOCK_NONE {
            Self::of(huge, previous).next = next;
        } else if let Some(head) = self.heads.get_mut(list) {
            *head = next;
            if next == BLOCK_NONE && list != CLEAN {
                self.occupied &= !(1 << (list - 1));
            }
        }
    }
}

/// Calls `part` with each huge page that a run touches and the mask of its units there.
fn each_part(start: u32, units: u32, mut part: impl FnMut(u32, u128)) {
    let (mut at, mut left) = (start, units);
    while left > 0 {
        let inside = at % HUGE_PAGE_UNITS;
        let length = left.min(HUGE_PAGE_UNITS - inside);
        part(at / HUGE_PAGE_UNITS, bits::mask(inside, length));
        at += length;
        left -= length;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
