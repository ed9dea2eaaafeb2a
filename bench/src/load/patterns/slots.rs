//! Arrays of slots whose blocks are replaced at random, handed on from thread to thread.
//!
//! `larson` recreates the server of P. Larson and M. Krishnan ("Memory allocation for long-running server
//! applications", 1998): 256 slots of small blocks a thread; a thread lives for 10,000 replacements, then a
//! new one takes over. `starve` recreates what storage engineers met in Ceph: the same with 64 slots of 4 to
//! 64 KiB a thread, whose sum over hundreds of threads is far beyond any cache budget. Of a block only the
//! first byte is written, so one page of each is resident (256 MiB with 1,024 threads) and the rest of the
//! peak is the allocator's.
//!
//! A thread gets the array of another worker: the blocks it frees were allocated by a thread that is gone or
//! lives elsewhere.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::exchange::Exchange;
use crate::load::random::{SizeLaw, scaled};

/// Replacements between two looks at the clock.
const STRETCH: usize = 64;
const GENERATION: usize = 10_000;

pub struct Slots {
    sizes: SizeLaw,
    arrays: Exchange,
}

impl Slots {
    pub fn larson(threads: usize) -> Self {
        let sizes = SizeLaw::Uniform { least: 8, greatest: 1000 };
        Self { sizes, arrays: Exchange::for_workers(threads, 256) }
    }

    pub fn starve(threads: usize) -> Self {
        let sizes = SizeLaw::Uniform { least: 4 << 10, greatest: 64 << 10 };
        Self { sizes, arrays: Exchange::for_workers(threads, 64) }
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
        let array = self.arrays.take();
        array.0.iter_mut().for_each(|slot| self.replace(slot, worker.random.next() >> 32));
        self.arrays.give(array);
    }

    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let array = self.arrays.take();
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
        self.arrays.give(array);
    }

    fn clean_up(&self) {
        self.arrays.release_blocks();
    }
}
