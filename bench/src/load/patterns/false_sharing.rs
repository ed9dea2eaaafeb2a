//! False sharing: two threads write to different blocks that lie on one cache line.
//!
//! `false-active`: does the allocator itself put blocks of different threads on one line? `false-passive`:
//! blocks that one thread allocated side by side are freed by others; does it then go on handing out parts of
//! those lines? Both after the programs in "Hoard: a scalable memory allocator for multithreaded
//! applications" (E. Berger and others, 2000; there cache-thrash and cache-scratch). One operation is
//! malloc(8), 1,000 writes to it, free.

use crate::load::c_heap::{self, Block};
use crate::load::crew::{Clock, Worker, Workload};
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 8;
const WRITES: usize = 1000;

pub struct FalseSharing {
    /// Addresses that the main thread allocated one after the other, one a worker; empty when sharing is
    /// active.
    given: Vec<AtomicUsize>,
}

impl FalseSharing {
    pub fn active() -> Self {
        Self { given: Vec::new() }
    }

    pub fn passive(threads: usize) -> Self {
        Self { given: (0..threads).map(|_| AtomicUsize::new(c_heap::allocate(BYTES) as usize)).collect() }
    }
}

impl Workload for FalseSharing {
    fn turn(&self, worker: &mut Worker, clock: &Clock) {
        if let Some(given) = self.given.get(worker.index) {
            // SAFETY: each worker takes its own block once, and frees it.
            unsafe { write_and_release(given.load(Ordering::Relaxed) as Block) };
        }
        while !clock.is_over(worker) {
            // SAFETY: just allocated.
            unsafe { write_and_release(c_heap::allocate(BYTES)) };
            worker.operations += 1;
        }
    }
}

/// # Safety
/// `block` is live, has 8 bytes, and nobody uses it afterwards.
unsafe fn write_and_release(block: Block) {
    for write in 0..WRITES {
        // SAFETY: below 8.
        unsafe { c_heap::touch(block, write % BYTES) };
    }
    // SAFETY: as the caller promises.
    unsafe { c_heap::release(block) };
}
