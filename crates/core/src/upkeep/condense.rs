//! Condensing: after a peak, blocks that swing between the program and its caches go through their spans for a while, so
//! that the fullest spans serve them and the others can empty.
//!
//! Caches serve a program that works in batches wholly by themselves. Then no block reaches a span, and what lives stays
//! scattered over as many pages as the peak had.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::ticks::Tick;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::Os;

/// A class is sparse where its spans have so many bytes of free blocks, and more than lives in them.
const LEAST_FREE: usize = 8 << 20;
/// The free blocks have to fall by this part, of what they were when they last did,
const PART: u32 = 64;
/// within so many ticks: spans empty late, when most of what lived in them has moved. Else only one tick in so many tries it.
const PATIENCE: u32 = 64;
const SELDOM: u32 = 256;

/// Notes on each class: free blocks when they last fell, and for how many ticks it has condensed since.
pub struct Condensing {
    free: [AtomicU32; TABLE_LEN],
    in_vain: [AtomicU32; TABLE_LEN],
}

impl Condensing {
    pub const fn new() -> Self {
        Condensing {
            free: [const { AtomicU32::new(0) }; TABLE_LEN],
            in_vain: [const { AtomicU32::new(0) }; TABLE_LEN],
        }
    }

    /// Whether a sparse class with so many free blocks is to condense until the next tick.
    fn is_due(&self, class: SizeClass, free_blocks: u32, now: Tick) -> bool {
        let (Some(free), Some(in_vain)) = (self.free.get(class.index()), self.in_vain.get(class.index()))
        else {
            return false;
        };
        let tries = in_vain.load(Ordering::Relaxed);
        let before = free.load(Ordering::Relaxed);
        // More than before: another peak.
        if free_blocks < before - before / PART || free_blocks > before + before / PART {
            free.store(free_blocks, Ordering::Relaxed);
            in_vain.store(0, Ordering::Relaxed);
            return true;
        }
        if tries >= PATIENCE && !now.0.is_multiple_of(SELDOM) {
            return false;
        }
        in_vain.store(tries.saturating_add(1), Ordering::Relaxed);
        true
    }
}

impl<O: Os> Upkeep<O> {
    /// Says of each class whether it condenses until the next tick; those whose caches are to be emptied for it now, a bit each.
    pub(super) fn choose_condensing(&self, floors: &Floors<O>, now: Tick) -> u128 {
        let has_much = floors.central.free_in_spans() >= LEAST_FREE;
        let mut begin = 0;
        for class in SizeClass::all() {
            let condenses = has_much && self.is_sparse(floors, class, now);
            let before = floors.central.condenses(class);
            if condenses != before {
                floors.central.condense(class, condenses);
                begin |= u128::from(condenses) << class.index();
            }
        }
        begin
    }

    fn is_sparse(&self, floors: &Floors<O>, class: SizeClass, now: Tick) -> bool {
        let stats = floors.central.stats(class);
        let (free, all) = (stats.free_blocks, stats.spans * u64::from(class.shape().blocks));
        free as usize * class.block_bytes() >= LEAST_FREE
            && free > all.saturating_sub(free)
            && self.condensing.is_due(class, free as u32, now)
    }
}
