//! Arrays of slots whose blocks are replaced at random, handed on from thread to thread.
//!
//! `larson` recreates the server of P. Larson and M. Krishnan ("Memory allocation for long-running server
//! applications", 1998): 256 slots of small blocks a thread; a thread lives for 10,000 replacements, then a new one takes
//! over.
//! `starve` recreates what storage engineers met in Ceph: the same with 64 slots of 4 to 64 KiB a thread, whose sum over
//! hundreds of threads is far beyond any cache budget. Of a block only the first byte is written, so one page of each
//! is resident (256 MiB with 1,024 threads) and the rest of the peak is the allocator's.
//!
//! There are a few more arrays than threads and they queue up, so a thread gets the array of another worker: the blocks
//! it frees were allocated by a thread that is gone or lives elsewhere.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::mapped::zeroed_array;
use crate::load::random::{SizeLaw, scaled};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Replacements between two looks at the clock.
const STRETCH: usize = 64;
const GENERATION: usize = 10_000;

pub struct Slots {
    sizes: SizeLaw,
    waiting: Mutex<VecDeque<SlotArray>>,
}

struct SlotArray(&'static mut [Block]);

// SAFETY: who takes an array out of the queue owns it and the blocks in it.
unsafe impl Send for SlotArray {}

impl Slots {
    pub fn larson(threads: usize) -> Self {
        Self::new(threads, 256, SizeLaw::Uniform { least: 8, greatest: 1000 })
    }

    pub fn starve(threads: usize) -> Self {
        Self::new(threads, 64, SizeLaw::Uniform { least: 4 << 10, greatest: 64 << 10 })
    }

    fn new(threads: usize, slots: usize, sizes: SizeLaw) -> Self {
        let arrays = threads + (threads / 16).max(1);
        let waiting = (0..arrays).map(|_| SlotArray(zeroed_array(slots))).collect();
        Self { sizes, waiting: Mutex::new(waiting) }
    }

    fn take(&self) -> SlotArray {
        let array = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        array.expect("there are more arrays than workers and each worker holds at most one")
    }

    fn give(&self, array: SlotArray) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(array);
    }

    #[inline(always)]
    fn replace(&self, slot: &mut Block, size_bits: u64) {
        // SAFETY: the slot holds null or a live block and gets a new one at once; the sizes are at least 8.
        unsafe {
            c_heap::release(*slot);
            *slot = c_heap::allocate(self.sizes.bytes(size_bits));
            c_heap::touch(*slot, 0);
        }
    }
}

impl Workload for Slots {
    const GENERATIONS: bool = true;

    fn prepare(&self, worker: &mut Worker) {
        let array = self.take();
        array.0.iter_mut().for_each(|slot| self.replace(slot, worker.random.next() >> 32));
        self.give(array);
    }

    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let array = self.take();
        for _ in 0..GENERATION / STRETCH {
            for _ in 0..STRETCH {
                let bits = worker.random.next();
                let slot = scaled(bits, array.0.len());
                self.replace(&mut array.0[slot], bits >> 32);
            }
            worker.operations += STRETCH as u64;
            if clock.is_over(worker) {
                break;
            }
        }
        self.give(array);
    }

    fn clean_up(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in waiting.iter_mut().flat_map(|array| array.0.iter_mut()) {
            // SAFETY: the slot holds null or a live block, and is emptied.
            unsafe { c_heap::release(std::mem::replace(slot, std::ptr::null_mut())) };
        }
    }
}
