//! Free runs anew, from what is known to be in use: for a child process. And what must be true of them, for tests.

#[cfg(any(test, feature = "fake-os"))]
use super::{BLOCK_NONE, CLEAN};
use super::{BLOCK_UNITS, Blocks, Huge, Runs, each_part};
#[cfg(any(test, feature = "fake-os"))]
use crate::pages::bits;

impl Runs {
    /// Begins a repair: all units of our blocks become free and leave the lists; the memory that each may hold
    /// stays known. `claim` marks what is in use, `relist` ends the repair.
    pub fn unlist_all(&mut self, blocks: &impl Blocks) {
        let Runs { blocks: count, first_number, .. } = *self;
        *self = Runs { blocks: count, first_number, ..Runs::new() };
        self.forget_free(blocks);
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

    /// Marks units of one block used, in a repair.
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
            assert_eq!(self.is_noted_free(blocks, number), block.free == u128::MAX, "the index of {number}");
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
        self.verify_index(blocks);
    }
}
