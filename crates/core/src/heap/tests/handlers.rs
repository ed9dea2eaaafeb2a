//! A signal handler that interrupts a slow path finds its thread with locks in hand.

use super::janitor::heap;
use crate::base::locks::Rank;
use crate::base::memory::fill;
use crate::os::fake::Fake;
use crate::os::{Wait, witness};
use core::sync::atomic::Ordering::Relaxed;

const SIZES: [usize; 8] = [1, 100, 1000, 20_000, 40_000, 100_000, 250_000, 300_000];

#[test]
fn no_call_of_a_handler_waits_for_a_lock() {
    let heap = heap();
    let many: Vec<usize> = (0..200).map(|_| heap.allocate(300_000)).collect();
    let old: Vec<usize> = SIZES.into_iter().map(|bytes| heap.allocate(bytes)).collect();
    old.iter().zip(SIZES).for_each(|(block, bytes)| fill(*block, bytes, 1));
    heap.os.is_handler.store(true, Relaxed);
    heap.inside(|_| {
        // As if the interrupted work had the last lock of all: waiting for any stops this process.
        witness::taken(Fake::mark, Rank::State);
        for (block, from) in old.iter().zip(SIZES) {
            let block = SIZES.into_iter().fold(*block, |block, bytes| {
                let moved = heap.reallocate(block, bytes.max(from));
                assert_ne!(moved, 0, "{bytes}");
                moved
            });
            heap.free(block);
        }
        for bytes in SIZES {
            for block in
                [heap.allocate(bytes), heap.allocate_zeroed(1, bytes), heap.allocate_aligned(256, bytes)]
            {
                assert!(heap.usable_bytes(block) >= bytes);
                heap.free(block);
            }
        }
        witness::left(Fake::mark, Rank::State);
    });
    many.into_iter().for_each(|block| heap.free(block));
    heap.verify();
}

#[test]
fn the_child_of_a_handler_is_put_right_without_waiting_for_a_lock() {
    let heap = heap();
    heap.inside(|_| {
        witness::taken(Fake::mark, Rank::State);
        // SAFETY: nobody else uses the heap.
        unsafe { heap.engine.repair(&*heap, false) };
        witness::left(Fake::mark, Rank::State);
    });
    heap.free(heap.allocate(100));
    heap.verify();
}
