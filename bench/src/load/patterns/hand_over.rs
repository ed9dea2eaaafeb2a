//! Producers allocate, consumers free: every free is of another thread's block.
//!
//! The known worst case of allocators that own blocks per thread (xmalloc-test of C. Lever and D. Boreham,
//! "malloc() performance in a multithreaded Linux environment", 2000, and the "remote free" programs after
//! it). Half of the threads produce, half consume; one size. There are at most 8 queues of 8,192 blocks at
//! any number of threads, and the threads of a queue take turns: the working set stays the same, and what
//! changes with the threads is the allocator. Operations count the blocks freed.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::queue::Queue;
use std::sync::atomic::{AtomicUsize, Ordering};

const BATCH: usize = 64;
const QUEUES: usize = 8;
const QUEUE_BLOCKS: usize = 8192;
pub const DEFAULT_BYTES: usize = 64;

pub struct HandOver {
    bytes: usize,
    queues: Vec<Queue>,
    producers_at_work: AtomicUsize,
}

impl HandOver {
    /// `threads` is even.
    pub fn new(threads: usize, bytes: usize) -> Self {
        let queues = (0..QUEUES.min(threads / 2)).map(|_| Queue::with_capacity(QUEUE_BLOCKS)).collect();
        Self { bytes, queues, producers_at_work: AtomicUsize::new(threads / 2) }
    }

    fn queue_of(&self, worker: &Worker) -> &Queue {
        &self.queues[worker.index / 2 % self.queues.len()]
    }

    fn is_producer(worker: &Worker) -> bool {
        worker.index.is_multiple_of(2)
    }

    fn produce(&self, worker: &mut Worker, clock: &Clock) {
        let mut batch = [std::ptr::null_mut(); BATCH];
        // The consumer counts the operations. For a fixed number of them a producer does two workers' share.
        let mut produced = 0;
        while !clock.is_over_after(produced) {
            for block in &mut batch {
                *block = c_heap::allocate(self.bytes);
                // SAFETY: live, and at least one byte.
                unsafe { c_heap::touch(*block, 0) };
            }
            self.queue_of(worker).send(&batch);
            produced += BATCH as u64 / 2;
        }
    }

    fn consume(&self, worker: &mut Worker) {
        let mut batch: [Block; BATCH] = [std::ptr::null_mut(); BATCH];
        loop {
            let count = self.queue_of(worker).receive(&mut batch);
            if count == 0 {
                break;
            }
            for &block in &batch[..count] {
                // SAFETY: the queue hands each block to one receiver.
                unsafe { c_heap::release(block) };
            }
            worker.operations += count as u64;
        }
    }
}

impl Workload for HandOver {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        if Self::is_producer(worker) {
            self.produce(worker, clock);
        } else {
            self.consume(worker);
        }
    }

    fn leave(&self, worker: &mut Worker) {
        if !Self::is_producer(worker) {
            return;
        }
        self.queue_of(worker).nudge_senders();
        // AcqRel: the last to leave closes the queues after everything that the others sent.
        if self.producers_at_work.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queues.iter().for_each(Queue::close);
        }
    }
}
