//! Buffers of 64 KiB to 16 MiB, 32 in flight in the process, oldest replaced first, a byte of every page
//! written.
//!
//! A read-ahead, a compaction or a recovery does this. The page faults are part of the pattern: an allocator
//! that gives pages back too eagerly pays for them here, one that never does pays in the peak.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::mapped::zeroed_array;
use crate::load::random::SizeLaw;
use std::sync::{Mutex, PoisonError};

const IN_FLIGHT: usize = 32;

pub struct Large {
    /// A fixed size, or log-uniform over the whole range.
    bytes: Option<usize>,
    buffers_each: usize,
    leftovers: Mutex<Vec<usize>>,
}

impl Large {
    pub fn new(threads: usize, bytes: Option<usize>) -> Self {
        Self { bytes, buffers_each: (IN_FLIGHT / threads).max(1), leftovers: Mutex::default() }
    }
}

impl Workload for Large {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let law = SizeLaw::LogUniform { least: 64 << 10, doublings: 8 };
        let ring: &mut [Block] = zeroed_array(self.buffers_each);
        let mut oldest = 0;
        while !clock.is_over(worker) {
            let bytes = self.bytes.unwrap_or_else(|| law.bytes(worker.random.next() >> 32));
            // SAFETY: a slot holds null or a live buffer and gets a new one at once.
            unsafe {
                c_heap::release(ring[oldest]);
                ring[oldest] = c_heap::allocate(bytes);
                c_heap::touch_pages(ring[oldest], bytes);
            }
            oldest = (oldest + 1) % ring.len();
            worker.operations += 1;
        }
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.extend(ring.iter().map(|&block| block as usize));
    }

    fn clean_up(&self) {
        for address in self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: null or a live buffer that its thread left here.
            unsafe { c_heap::release(address as Block) };
        }
    }
}
