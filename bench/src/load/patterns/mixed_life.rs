//! Mixed sizes with mixed lifetimes, many threads: most blocks die young, some live long, few live very long.
//!
//! The observation behind generational collectors and behind the synthetic loads of "Dynamic storage
//! allocation: a survey and critical review" (P. Wilson and others, 1995). Each thread keeps three rings: 70
//! of 100 blocks live for 16 allocations of their ring, 25 for 64, 5 for 256. Sizes 16 B to 4 KiB, each
//! doubling equally likely. Young and old neighbours in one span are what keeps spans from draining.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::mapped::zeroed_array;
use crate::load::random::{SizeLaw, scaled};

const STRETCH: u64 = 64;

pub struct MixedLife;

struct Ring {
    blocks: &'static mut [Block],
    oldest: usize,
}

impl Ring {
    fn of(blocks: usize) -> Self {
        Self { blocks: zeroed_array(blocks), oldest: 0 }
    }

    #[inline(always)]
    fn replace_oldest(&mut self, block: Block) -> Block {
        let old = std::mem::replace(&mut self.blocks[self.oldest], block);
        self.oldest = (self.oldest + 1) & (self.blocks.len() - 1);
        old
    }
}

impl Workload for MixedLife {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let law = SizeLaw::LogUniform { least: 16, doublings: 8 };
        let mut rings = [Ring::of(16), Ring::of(64), Ring::of(256)];
        while !clock.is_over(worker) {
            for _ in 0..STRETCH {
                let bits = worker.random.next();
                let ring = match scaled(bits, 100) {
                    0..70 => 0,
                    70..95 => 1,
                    _ => 2,
                };
                let block = c_heap::allocate(law.bytes(bits >> 32));
                // SAFETY: live and at least 16 bytes; the ring gives up null or a live block.
                unsafe {
                    c_heap::touch(block, 0);
                    c_heap::release(rings[ring].replace_oldest(block));
                }
            }
            worker.operations += STRETCH;
        }
        for &block in rings.iter().flat_map(|ring| ring.blocks.iter()) {
            // SAFETY: null or live, and the ring is dropped.
            unsafe { c_heap::release(block) };
        }
    }
}
