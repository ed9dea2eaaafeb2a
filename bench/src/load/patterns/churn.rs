//! Short threads, one after the other: what a thread costs that hardly lives.
//!
//! Every thread allocates 64 blocks of 16 B to 1 KiB, frees half of them itself and leaves the other half to
//! a later thread. An allocator that keeps something for each thread pays here for setting it up, emptying it
//! and adopting what is left (the threads of a connection-per-thread server; "threadtest" with an end). One
//! operation is one thread.

use crate::load::c_heap;
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::exchange::Exchange;
use crate::load::random::SizeLaw;

const LEFT_BEHIND: usize = 32;
/// How many threads the pattern starts by default.
pub const DEFAULT_THREADS: u64 = 20_000;

pub struct Churn {
    legacies: Exchange,
}

impl Churn {
    pub fn new(threads: usize) -> Self {
        Self { legacies: Exchange::for_workers(threads, LEFT_BEHIND) }
    }
}

impl Workload for Churn {
    const GENERATIONS: bool = true;

    fn turn(&self, worker: &mut Worker, _clock: &Clock) {
        let law = SizeLaw::LogUniform { least: 16, doublings: 6 };
        let legacy = self.legacies.take();
        for slot in legacy.0.iter_mut() {
            let own = c_heap::allocate(law.bytes(worker.random.next() >> 32));
            let left = c_heap::allocate(law.bytes(worker.random.next() >> 32));
            // SAFETY: both are live and at least 16 bytes; `own` is freed once; the slot holds null or a live
            // block.
            unsafe {
                c_heap::touch(own, 0);
                c_heap::touch(left, 0);
                c_heap::release(own);
                c_heap::release(std::mem::replace(slot, left));
            }
        }
        self.legacies.give(legacy);
        worker.operations += 1;
    }

    fn clean_up(&self) {
        self.legacies.release_blocks();
    }
}
