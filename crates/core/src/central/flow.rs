//! The way of blocks out of the middle and back: transfer arrays first, then spans, then new ones.

use super::Central;
use super::lists::Taken;
use crate::base::Fresh;
use crate::base::chance::next_random;
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::{MOST_BATCH, SizeClass};
use crate::os::Os;
use crate::pages::Pages;

/// Of blocks up to this length only so many neighbours are shuffled: programs go through small blocks in the order in which
/// they got them, and the processor reads ahead where that is nearly the order of addresses.
const MOST_NEAR_BYTES: usize = 512;
const NEAR: usize = 8;

impl<O: Os> Central<O> {
    /// Fills `out` with free blocks; fewer than asked for only where there is no memory. In no order, where a policy checks
    /// every block: one of them does not tell where the next one is.
    pub fn take(&self, os: &O, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> usize {
        let count = self.take_in_order(os, pages, class, out);
        if pages.keeps_marks() {
            let near = if class.block_bytes() <= MOST_NEAR_BYTES { NEAR } else { MOST_BATCH };
            self.shuffle(os, out.get_mut(..count).unwrap_or_default(), near);
        }
        count
    }

    /// Shuffles each `near` blocks among themselves.
    #[inline(never)]
    fn shuffle(&self, os: &O, blocks: &mut [usize], near: usize) {
        if self.order.load(Ordering::Relaxed) == 0 {
            self.order.store(os.random() | 1, Ordering::Relaxed);
        }
        // Two threads never have the same state.
        let mut state = self.order.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).rotate_left(32);
        for blocks in blocks.chunks_mut(near) {
            for last in (1..blocks.len()).rev() {
                let other = ((u128::from(next_random(&mut state)) * (last as u128 + 1)) >> 64) as usize;
                // Both are in it; a place is not exchanged with itself.
                if let Ok([one, another]) = blocks.get_disjoint_mut([last, other]) {
                    core::mem::swap(one, another);
                }
            }
        }
    }

    fn take_in_order(&self, os: &O, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> usize {
        let number = self.domains.current(os);
        let mut count = self.array_in(number, class).take(out);
        if count < out.len() && self.domains.are_several() {
            count += out.get_mut(count..).map_or(0, |rest| self.take_from_another(number, class, rest));
        }
        match out.get_mut(count..) {
            Some(rest) if !rest.is_empty() => {
                let taken = self.take_from_spans(os, pages, class, rest);
                // Before a page of a new block is there: a huge page comes in whole.
                pages.prefault(os);
                if let Some((address, bytes)) = taken.reached
                    && !pages.is_newest_huge(address)
                {
                    os.populate(address, bytes);
                }
                count + taken.blocks
            }
            _ => count,
        }
    }

    /// Blocks of the spans, and of new ones where there are none: these are opened without the lock of the class.
    fn take_from_spans(&self, os: &O, pages: &Pages<O>, class: SizeClass, out: &mut [usize]) -> Taken {
        let spans = &self.class(class).spans;
        let mut held = spans.lock();
        let mut taken = held.take(pages, class, out);
        if taken.blocks < out.len() && self.domains.are_several() {
            drop(held);
            // The blocks of other domains come before new memory.
            for array in self.arrays_of(class) {
                taken.blocks += out.get_mut(taken.blocks..).map_or(0, |rest| array.take(rest));
            }
            held = spans.lock();
        }
        while let Some(rest) = out.get_mut(taken.blocks..)
            && !rest.is_empty()
        {
            let Some(new) = self.open_span(os, pages, class, held) else { break };
            held = new;
            let more = held.take(pages, class, rest);
            taken = Taken { blocks: taken.blocks + more.blocks, reached: more.reached.or(taken.reached) };
        }
        taken
    }

    /// One free block.
    pub fn take_one(&self, os: &O, pages: &Pages<O>, class: SizeClass) -> Fresh {
        let mut one = [0];
        if let (1, [block]) = (self.array(os, class).take(&mut one), one) {
            return Fresh { address: block, zeroed: false };
        }
        let mut held = self.class(class).spans.lock();
        loop {
            let block = held.take_one(pages, class);
            if block.address != 0 {
                return block;
            }
            match self.open_span(os, pages, class, held) {
                Some(new) => held = new,
                None => return Fresh::NONE,
            }
        }
    }

    /// Takes free blocks of one class, into the transfer array as far as there is room.
    pub fn give(&self, os: &O, pages: &Pages<O>, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        let kept = if self.condenses(class) { 0 } else { self.keep(os, pages, class, blocks)? };
        match blocks.get(kept..) {
            Some(rest) if !rest.is_empty() => self.give_to_spans(pages, class, rest),
            _ => Ok(()),
        }
    }
}
