//! Mixed sizes with mixed lifetimes, many threads: most blocks die young, some live long, few live very long.
//!
//! The observation behind generational collectors and behind the synthetic loads of "Dynamic storage
//! allocation: a survey and critical review" (P. Wilson and others, 1995). Each thread keeps three rings: 70
//! of 100 blocks live for 16 allocations of their ring, 25 for 64, 5 for 256. Sizes 16 B to 4 KiB, each
//! doubling equally likely. Young and old neighbours in one span are what keeps spans from draining. The rings
//! are full before the clock starts, and stay full until all threads have done their work.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::exchange::Shelves;
use crate::load::random::{SizeLaw, scaled};

const STRETCH: u64 = 64;
const RINGS: [usize; 3] = [16, 64, 256];
const LAW: SizeLaw = SizeLaw::LogUniform { least: 16, doublings: 8 };

pub struct MixedLife {
    shelves: Shelves,
}

impl MixedLife {
    pub fn new(threads: usize) -> Self {
        Self { shelves: Shelves::for_workers(threads, RINGS.iter().sum()) }
    }
}

struct Ring<'a> {
    blocks: &'a mut [Block],
    oldest: usize,
}

impl Ring<'_> {
    #[inline(always)]
    fn replace_oldest(&mut self, block: Block) -> Block {
        let old = std::mem::replace(&mut self.blocks[self.oldest], block);
        self.oldest = (self.oldest + 1) & (self.blocks.len() - 1);
        old
    }
}

/// The rings of a worker, one behind the other in its array.
fn rings_in(mut slots: &mut [Block]) -> [Ring<'_>; RINGS.len()] {
    RINGS.map(|length| {
        let (blocks, rest) = std::mem::take(&mut slots).split_at_mut(length);
        slots = rest;
        Ring { blocks, oldest: 0 }
    })
}

#[inline(always)]
fn allocate(size_bits: u64) -> Block {
    let block = c_heap::allocate(LAW.bytes(size_bits));
    // SAFETY: live and at least 16 bytes.
    unsafe { c_heap::touch(block, 0) };
    block
}

impl Workload for MixedLife {
    fn prepare(&self, worker: &mut Worker) {
        let slots = &mut self.shelves.of(worker.index).0;
        slots.iter_mut().for_each(|slot| *slot = allocate(worker.random.next() >> 32));
    }

    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let mut shelf = self.shelves.of(worker.index);
        let mut rings = rings_in(shelf.0);
        while !clock.is_over(worker) {
            for _ in 0..STRETCH {
                let bits = worker.random.next();
                let ring = match scaled(bits, 100) {
                    0..70 => 0,
                    70..95 => 1,
                    _ => 2,
                };
                let block = allocate(bits >> 32);
                // SAFETY: the ring gives up a live block.
                unsafe { c_heap::release(rings[ring].replace_oldest(block)) };
            }
            worker.operations += STRETCH;
        }
    }

    fn clean_up(&self) {
        self.shelves.release_blocks();
    }
}
