//! Large buffers, 64 KiB to 64 MiB: new ones, ones that grow, and sizes that take turns. Each thread has its own.
//!
//! Parsers, compressors, image and column stores and string builders do this. A byte of every page is written, so the
//! page faults are part of the pattern, as are the copies of a buffer that moves. One operation is one call of malloc
//! or realloc.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use crate::load::random::SizeLaw;

const LEAST: usize = 64 << 10;
/// Strings that are kept, each cut to its length, until as many newer ones are done.
const KEPT: usize = 4;
/// A string grows by pieces of so many bytes at most.
const PIECE_MOST: usize = 4096;
/// Sizes that take turns, in KiB: the next is taken before the last is freed.
const IN_TURN: [usize; 8] = [1024, 3072, 96, 12_288, 400, 5120, 64, 30_720];

/// The use of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// malloc, write, free: 64 KiB to 64 MiB.
    Fresh,
    /// From 64 KiB to 64 MiB, by half at a time.
    ByHalves,
    /// From 64 KiB to 4 MiB, by 4 KiB.
    ByPages,
    /// From 64 KiB to 16 MiB, by 64 KiB.
    BySteps,
    /// Strings of 64 KiB to 16 MiB, made of pieces of up to 4 KiB, whose room doubles.
    Strings,
    /// Eight sizes from 64 KiB to 30 MiB in turn, two buffers at a time.
    InTurn,
}

struct Buffer {
    block: Block,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Self {
        let mut buffer = Buffer { block: std::ptr::null_mut(), bytes: 0 };
        buffer.resize(bytes);
        buffer
    }

    /// Writes to the new part.
    fn resize(&mut self, bytes: usize) {
        // SAFETY: null or live, and replaced by what is returned; what is written to lies below `bytes`.
        unsafe {
            self.block = c_heap::reallocate(self.block, bytes);
            let written = self.bytes.min(bytes);
            c_heap::touch_pages(self.block.add(written), bytes - written);
        }
        self.bytes = bytes;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: null or live, and forgotten.
        unsafe { c_heap::release(self.block) };
    }
}

/// One buffer, made longer until it is `most` bytes long.
fn grow(worker: &mut Worker, clock: &Clock, most: usize, longer: impl Fn(usize) -> usize) {
    let mut buffer = Buffer::new(LEAST);
    worker.operations += 1;
    while buffer.bytes < most && !clock.is_over(worker) {
        buffer.resize(longer(buffer.bytes));
        worker.operations += 1;
    }
}

/// One string, cut to its length when it is done.
fn build(worker: &mut Worker) -> Buffer {
    let law = SizeLaw::LogUniform { least: LEAST, doublings: 8 };
    let (length, piece) = (law.bytes(worker.random.next() >> 32), [7u8; PIECE_MOST]);
    let (mut string, mut written) = (Buffer { block: std::ptr::null_mut(), bytes: 0 }, 0);
    while written < length {
        let bytes = 16 + worker.random.below(PIECE_MOST - 16);
        if written + bytes > string.bytes {
            let room = (written + bytes).next_power_of_two();
            // SAFETY: as in `resize`, but who appends writes the rest himself.
            unsafe { string.block = c_heap::reallocate(string.block, room) };
            string.bytes = room;
            worker.operations += 1;
        }
        // SAFETY: the string has room for the piece.
        unsafe { string.block.add(written).copy_from_nonoverlapping(piece.as_ptr(), bytes) };
        written += bytes;
    }
    string.resize(written);
    worker.operations += 1;
    string
}

impl Workload for Buffers {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        let law = SizeLaw::LogUniform { least: LEAST, doublings: 10 };
        let mut kept: [Option<Buffer>; KEPT] = Default::default();
        let mut turn = 0;
        while !clock.is_over(worker) {
            match self {
                Buffers::Fresh => {
                    drop(Buffer::new(law.bytes(worker.random.next() >> 32)));
                    worker.operations += 1;
                }
                Buffers::ByHalves => grow(worker, clock, 64 << 20, |bytes| bytes + bytes / 2),
                Buffers::ByPages => grow(worker, clock, 4 << 20, |bytes| bytes + (4 << 10)),
                Buffers::BySteps => grow(worker, clock, 16 << 20, |bytes| bytes + (64 << 10)),
                Buffers::Strings => kept[turn % KEPT] = Some(build(worker)),
                Buffers::InTurn => {
                    kept[0] = Some(Buffer::new(IN_TURN[turn % IN_TURN.len()] << 10));
                    worker.operations += 1;
                }
            }
            turn += 1;
        }
    }
}
