//! Buffers that grow by realloc: what strings, vectors and serialisers do.
//!
//! Each thread grows four buffers in turn, each by half of its size at a time, from 64 B to 256 KiB, and then
//! starts again; because they take turns, growing in place is not given away by the end of the heap. Each
//! page of the new part is written. One operation is one realloc. Every thread has its buffers before the
//! clock starts, at all stages of their growth, and keeps them until all have done their work.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::exchange::Shelves;

const BUFFERS: usize = 4;
const FIRST_BYTES: usize = 64;
const LAST_BYTES: usize = 256 << 10;
/// Steps from the first size to beyond the last.
const STEPS: usize = 22;

pub struct Growth {
    shelves: Shelves,
}

impl Growth {
    pub fn new(threads: usize) -> Self {
        Self { shelves: Shelves::for_workers(threads, BUFFERS) }
    }
}

#[derive(Clone, Copy)]
struct Buffer {
    block: Block,
    bytes: usize,
}

impl Buffer {
    const EMPTY: Self = Self { block: std::ptr::null_mut(), bytes: 0 };

    /// A buffer as it is kept while nobody grows it.
    fn on_shelf(worker: &Worker, index: usize, block: Block) -> Self {
        let bytes = if block.is_null() { 0 } else { bytes_after(first_steps(worker, index)) };
        Self { block, bytes }
    }

    fn grow(&mut self) {
        if self.bytes > LAST_BYTES {
            self.empty();
        }
        let bytes = larger(self.bytes);
        // SAFETY: the block is null or live and is replaced by what realloc returns; the touched part is
        // below `bytes`.
        unsafe {
            self.block = c_heap::reallocate(self.block, bytes);
            c_heap::touch_pages(self.block.add(self.bytes), bytes - self.bytes);
        }
        self.bytes = bytes;
    }

    fn empty(&mut self) {
        // SAFETY: null or live, and forgotten.
        unsafe { c_heap::release(self.block) };
        *self = Self::EMPTY;
    }
}

fn larger(bytes: usize) -> usize {
    FIRST_BYTES.max(bytes + bytes / 2)
}

fn bytes_after(steps: usize) -> usize {
    (0..steps).fold(0, |bytes, _| larger(bytes))
}

/// The buffers of all threads start at different sizes, so that they do not restart together.
fn first_steps(worker: &Worker, index: usize) -> usize {
    (worker.index + index * 5) % STEPS
}

impl Workload for Growth {
    fn prepare(&self, worker: &mut Worker) {
        for (index, slot) in self.shelves.of(worker.index).0.iter_mut().enumerate() {
            let mut buffer = Buffer::EMPTY;
            (0..first_steps(worker, index)).for_each(|_| buffer.grow());
            *slot = buffer.block;
        }
    }

    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let shelf = &mut self.shelves.of(worker.index).0;
        let mut buffers: [Buffer; BUFFERS] =
            std::array::from_fn(|index| Buffer::on_shelf(worker, index, shelf[index]));
        while !clock.is_over(worker) {
            buffers.iter_mut().for_each(Buffer::grow);
            worker.operations += BUFFERS as u64;
        }
        shelf.iter_mut().zip(buffers).for_each(|(slot, buffer)| *slot = buffer.block);
    }

    fn clean_up(&self) {
        self.shelves.release_blocks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_steps_lead_beyond_the_last_size() {
        assert!(bytes_after(STEPS - 1) <= LAST_BYTES && bytes_after(STEPS) > LAST_BYTES);
    }
}
