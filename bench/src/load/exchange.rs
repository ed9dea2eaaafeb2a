//! Arrays of blocks that outlive the turn of a thread: passed on from one to another, or each worker's own.

use super::c_heap::{self, Block};
use super::mapped::zeroed_array;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An array whose slots are null or hold a live block.
pub struct SlotArray(pub &'static mut [Block]);

// SAFETY: the thread that takes an array out of the exchange owns it and the blocks in it.
unsafe impl Send for SlotArray {}

/// A queue of arrays, a few more than there are workers: a worker that gives one back and takes one gets that
/// of another.
pub struct Exchange(Mutex<VecDeque<SlotArray>>);

impl Exchange {
    /// Enough arrays for workers that each hold at most one; all slots empty.
    pub fn for_workers(workers: usize, slots: usize) -> Self {
        let arrays = workers + (workers / 16).max(1);
        Self(Mutex::new((0..arrays).map(|_| SlotArray(zeroed_array(slots))).collect()))
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<SlotArray>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The array that has waited longest.
    pub fn take(&self) -> SlotArray {
        let array = self.waiting().pop_front();
        array.expect("there are more arrays than workers and each worker holds at most one")
    }

    pub fn give(&self, array: SlotArray) {
        self.waiting().push_back(array);
    }

    /// Frees every block in the arrays that wait.
    pub fn release_blocks(&self) {
        self.waiting().iter_mut().for_each(|array| release_all(array.0));
    }
}

/// One array for each worker, which it finds full when its turn begins and leaves full when it ends: what a
/// pattern holds is then the same under every allocator, however its threads come to run.
pub struct Shelves(Vec<Mutex<SlotArray>>);

impl Shelves {
    /// All slots empty.
    pub fn for_workers(workers: usize, slots: usize) -> Self {
        let arrays = zeroed_array(workers * slots).chunks_exact_mut(slots);
        Self(arrays.map(|array| Mutex::new(SlotArray(array))).collect())
    }

    /// The array of a worker, for as long as the worker wants it.
    pub fn of(&self, worker: usize) -> MutexGuard<'_, SlotArray> {
        self.0[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees every block.
    pub fn release_blocks(&self) {
        (0..self.0.len()).for_each(|worker| release_all(self.of(worker).0));
    }
}

fn release_all(slots: &mut [Block]) {
    for slot in slots {
        // SAFETY: the slot holds null or a live block, and is emptied.
        unsafe { c_heap::release(std::mem::replace(slot, std::ptr::null_mut())) };
    }
}
