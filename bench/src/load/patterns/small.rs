//! A small process: allocates 2 MiB in blocks of 16 B to 4 KiB, writes all of it, and holds it.
//!
//! The resident memory above that is the allocator's cost to a process that hardly needs one (the command-line
//! tools and helpers that run beside a daemon).

use crate::load::c_heap::{self, Block};
use crate::load::mapped::zeroed_array;
use crate::load::random::{Random, SizeLaw};

const TOTAL_BYTES: usize = 2 << 20;

/// The blocks of the small process; free them with [`SmallProcess::release`].
pub struct SmallProcess(&'static mut [Block]);

impl SmallProcess {
    pub fn allocate() -> Self {
        let law = SizeLaw::LogUniform { least: 16, doublings: 8 };
        let mut random = Random::seeded(1);
        let blocks: &mut [Block] = zeroed_array(TOTAL_BYTES / 16);
        let mut used = 0;
        let mut count = 0;
        while used < TOTAL_BYTES {
            let bytes = law.bytes(random.next() >> 32);
            blocks[count] = c_heap::allocate(bytes);
            // SAFETY: live, `bytes` long.
            unsafe { blocks[count].write_bytes(1, bytes) };
            used += bytes;
            count += 1;
        }
        Self(&mut blocks[..count])
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn release(self) {
        // SAFETY: each block is live and freed once, as `self` is consumed.
        self.0.iter().for_each(|&block| unsafe { c_heap::release(block) });
    }
}
