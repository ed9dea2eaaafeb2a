//! Buffers that grow by realloc: what strings, vectors and serialisers do.
//!
//! Each thread grows four buffers in turn, each by half of its size at a time, from 64 B to 256 KiB, and then
//! starts again; because they take turns, growing in place is not given away by the end of the heap. Each
//! page of the new part is written. One operation is one realloc.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};

const BUFFERS: usize = 4;
const FIRST_BYTES: usize = 64;
const LAST_BYTES: usize = 256 << 10;

pub struct Growth;

#[derive(Clone, Copy)]
struct Buffer {
    block: Block,
    bytes: usize,
}

impl Buffer {
    const EMPTY: Self = Self { block: std::ptr::null_mut(), bytes: 0 };

    fn grow(&mut self) {
        if self.bytes > LAST_BYTES {
            self.empty();
        }
        let bytes = FIRST_BYTES.max(self.bytes + self.bytes / 2);
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

impl Workload for Growth {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let mut buffers = [Buffer::EMPTY; BUFFERS];
        // The buffers start at different sizes, so that they do not restart together.
        buffers.iter_mut().enumerate().for_each(|(index, buffer)| (0..index * 5).for_each(|_| buffer.grow()));
        while !clock.is_over(worker) {
            buffers.iter_mut().for_each(Buffer::grow);
            worker.operations += BUFFERS as u64;
        }
        buffers.iter_mut().for_each(Buffer::empty);
    }
}
