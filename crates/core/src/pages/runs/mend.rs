//! Free runs anew, from what is known to be in use: for a child process. And what must be true of them, for tests.

#[cfg(any(test, feature = "fake-os"))]
use super::{BLOCK_NONE, CLEAN};
use super::{HUGE_PAGE_UNITS, Huge, HugeTable, Runs, each_part};
#[cfg(any(test, feature = "fake-os"))]
use crate::pages::bits;

impl Runs {
    /// Begins a repair: all units of our huge pages become free and leave the lists; the memory that each may hold
    /// stays known. `claim` marks what is in use, `relist` ends the repair.
    pub fn unlist_all(&mut self, huge: &impl HugeTable) {
        let Runs { huge: count, first_number, .. } = *self;
        *self = Runs { huge: count, first_number, ..Runs::new() };
        self.forget_free(huge);
        let mut number = 0;
        while number < count {
            let huge_page = Self::of(huge, number);
            let stride = self.stride(huge, number);
            if huge_page.huge == Huge::Foreign {
                self.lost += u64::from(stride) * u64::from(HUGE_PAGE_UNITS);
            } else {
                (huge_page.free, huge_page.list) = (u128::MAX, 0);
            }
            number += stride;
        }
    }

    /// Marks a run used, in a repair.
    pub fn claim(&mut self, huge: &impl HugeTable, start: u32, units: u32) {
        each_part(start, units, |number, mask| self.claim_in(huge, number, mask));
    }

    /// Marks units of one huge page used, in a repair.
    pub fn claim_in(&mut self, huge: &impl HugeTable, number: u32, mask: u128) {
        if mask != 0 {
            let huge_page = Self::of(huge, number);
            huge_page.free &= !mask;
            huge_page.dirty |= mask;
        }
    }

    /// Ends a repair: counts and lists every huge page of ours. Returns how many the kernel backs by one of its own.
    pub fn relist(&mut self, huge: &impl HugeTable) -> usize {
        let (mut number, mut backed) = (0, 0);
        while number < self.huge {
            let huge_page = Self::of(huge, number);
            if huge_page.huge != Huge::Foreign {
                self.used += huge_page.free.count_zeros() as u64;
                self.dirty_free += (huge_page.dirty & huge_page.free).count_ones() as u64;
                backed += usize::from(huge_page.huge == Huge::Yes);
                self.insert(huge, number);
            }
            number += self.stride(huge, number);
        }
        backed
    }
}

#[cfg(any(test, feature = "fake-os"))]
impl Runs {
    /// The huge pages that are not in a gap.
    pub fn numbers_of_ours(&self, huge: &impl HugeTable) -> impl Iterator<Item = u32> {
        let next = |number: &u32| Some(number + self.stride(huge, *number)).filter(|next| *next < self.huge);
        let first = (self.huge > 0).then_some(0);
        core::iter::successors(first, next).filter(|number| self.is_ours(huge, *number))
    }

    /// Panics where lists, counters and huge pages contradict each other.
    pub fn verify(&self, huge: &impl HugeTable) {
        let (mut used, mut dirty_free, mut listed) = (0, 0, 0);
        for number in self.numbers_of_ours(huge) {
            let huge_page = Self::of(huge, number);
            let in_use = !huge_page.free & !self.waiting_of(number);
            assert_eq!(in_use & !huge_page.dirty, 0, "used units count as dirty");
            used += in_use.count_ones() as u64;
            dirty_free += (huge_page.dirty & huge_page.free).count_ones() as u64;
            listed += u32::from(huge_page.free != 0);
            assert_eq!(
                self.is_noted_free(huge, number),
                huge_page.free == u128::MAX,
                "the index of {number}"
            );
        }
        assert_eq!((used, dirty_free), (self.used, self.dirty_free), "what is used and dirty is counted");
        let mut found = 0;
        for (list, head) in self.heads.iter().enumerate() {
            let mut number = *head;
            let mut previous = BLOCK_NONE;
            while number != BLOCK_NONE {
                let huge_page = Self::of(huge, number);
                let longest = bits::longest_run(huge_page.free) as usize;
                let right = if huge_page.free == u128::MAX && huge_page.dirty == 0 { CLEAN } else { longest };
                assert_eq!((huge_page.list as usize, list, huge_page.previous), (list, right, previous));
                found += 1;
                assert!(found <= listed, "a list bites its tail");
                (previous, number) = (number, huge_page.next);
            }
            if (1..CLEAN).contains(&list) {
                assert_eq!(self.occupied >> (list - 1) & 1 == 1, *head != BLOCK_NONE, "list {list}");
            }
        }
        assert_eq!(found, listed, "every block with free units is listed");
        self.verify_index(huge);
    }
}
