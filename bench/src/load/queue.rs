//! A bounded queue of blocks between threads that costs next to nothing per block, because what is measured
//! is the allocator and not the futex.
//!
//! Blocks move in batches. A sender that found the queue full sleeps until it is half empty, a receiver that
//! found it empty until half full, so one switch of threads is paid per half a queue and not per batch. One
//! sleeper at a time is woken, the longest asleep first, so with many threads on a queue they take turns.

use super::c_heap::Block;
use super::mapped::zeroed_array;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Any number of senders and receivers.
pub struct Queue {
    ring: Mutex<Ring>,
    half_full: Condvar,
    half_empty: Condvar,
}

struct Ring {
    blocks: &'static mut [Block],
    first: usize,
    count: usize,
    /// Counted up by who falls asleep and down by who wakes him, so that nobody is woken twice before he
    /// runs. A sleeper that wakes by itself leaves the count too high, which costs one needless wake.
    receivers_asleep: usize,
    senders_asleep: usize,
    closed: bool,
}

// SAFETY: the ring only carries the addresses of blocks from a sender to the receiver; the receiver owns them.
unsafe impl Send for Ring {}

impl Queue {
    /// `capacity` is a power of two.
    pub fn with_capacity(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "a ring is indexed by masking");
        let ring = Ring {
            blocks: zeroed_array(capacity),
            first: 0,
            count: 0,
            receivers_asleep: 0,
            senders_asleep: 0,
            closed: false,
        };
        Self { ring: Mutex::new(ring), half_full: Condvar::new(), half_empty: Condvar::new() }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all of `batch` fits; a batch is at most half the capacity.
    pub fn send(&self, batch: &[Block]) {
        let mut ring = self.ring();
        debug_assert!(batch.len() <= ring.half());
        if ring.blocks.len() - ring.count < batch.len() {
            while ring.blocks.len() - ring.count < batch.len() || ring.count > ring.half() {
                ring.senders_asleep += 1;
                ring = self.half_empty.wait(ring).unwrap_or_else(PoisonError::into_inner);
            }
        }
        ring.append(batch);
        if ring.receivers_asleep > 0 && ring.count >= ring.half() {
            ring.receivers_asleep -= 1;
            self.half_full.notify_one();
        }
    }

    /// Fills `batch` from its start and says how many came; 0 means that the queue is closed and empty.
    pub fn receive(&self, batch: &mut [Block]) -> usize {
        let mut ring = self.ring();
        if ring.count == 0 {
            while ring.count < ring.half() && !ring.closed {
                ring.receivers_asleep += 1;
                ring = self.half_full.wait(ring).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let received = ring.take(batch);
        if ring.senders_asleep > 0 && ring.count <= ring.half() {
            ring.senders_asleep -= 1;
            self.half_empty.notify_one();
        }
        received
    }

    /// Lets every sleeping sender look again. A sender that leaves for good calls it: the one that was woken
    /// may have been this one, and it will not fill the queue any more.
    pub fn nudge_senders(&self) {
        self.ring().senders_asleep = 0;
        self.half_empty.notify_all();
    }

    /// No sender will come any more: the receivers get the rest and then 0.
    pub fn close(&self) {
        self.ring().closed = true;
        self.half_full.notify_all();
    }
}

impl Ring {
    fn half(&self) -> usize {
        self.blocks.len() / 2
    }

    fn append(&mut self, batch: &[Block]) {
        let mask = self.blocks.len() - 1;
        for (offset, &block) in batch.iter().enumerate() {
            self.blocks[(self.first + self.count + offset) & mask] = block;
        }
        self.count += batch.len();
    }

    fn take(&mut self, batch: &mut [Block]) -> usize {
        let mask = self.blocks.len() - 1;
        let taken = self.count.min(batch.len());
        for (offset, block) in batch[..taken].iter_mut().enumerate() {
            *block = self.blocks[(self.first + offset) & mask];
        }
        self.first = (self.first + taken) & mask;
        self.count -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers dressed as addresses: the queue never looks at what it carries.
    fn numbers(range: std::ops::Range<usize>) -> Vec<Block> {
        range.map(|number| number as Block).collect()
    }

    #[test]
    fn blocks_come_out_in_the_order_they_went_in_also_round_the_end_of_the_ring() {
        let queue = Queue::with_capacity(8);
        let mut batch = [std::ptr::null_mut(); 3];
        for start in (0..30).step_by(3) {
            queue.send(&numbers(start..start + 3));
            assert_eq!(queue.receive(&mut batch), 3);
            assert_eq!(batch.to_vec(), numbers(start..start + 3));
        }
    }

    #[test]
    fn a_closed_queue_gives_the_rest_and_then_nothing() {
        let queue = Queue::with_capacity(8);
        let mut batch = [std::ptr::null_mut(); 4];
        queue.send(&numbers(0..2));
        queue.close();
        assert_eq!((queue.receive(&mut batch), queue.receive(&mut batch)), (2, 0));
    }

    #[test]
    fn with_three_senders_two_receivers_and_a_tiny_queue_every_block_arrives_once() {
        let queue = Queue::with_capacity(8);
        let send_thousand = |sender: usize| {
            for start in (sender * 1000..(sender + 1) * 1000).step_by(4) {
                queue.send(&numbers(start..start + 4));
            }
            queue.nudge_senders();
        };
        let receive_all = || {
            let mut batch = [std::ptr::null_mut(); 4];
            let mut received = Vec::new();
            loop {
                match queue.receive(&mut batch) {
                    0 => return received,
                    count => received.extend(batch[..count].iter().map(|&block| block as usize)),
                }
            }
        };
        let mut received = std::thread::scope(|scope| {
            let receivers = [scope.spawn(receive_all), scope.spawn(receive_all)];
            let senders = [0, 1, 2].map(|sender| scope.spawn(move || send_thousand(sender)));
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            queue.close();
            receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect::<Vec<_>>()
        });
        received.sort_unstable();
        assert!(received.into_iter().eq(0..3000));
    }
}
