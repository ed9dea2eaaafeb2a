//! Arrays of blocks that pass from thread to thread.

use super::c_heap::{self, Block};
use super::mapped::zeroed_array;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An array whose slots are null or hold a live block.
pub struct SlotArray(pub &'static mut [Block]);

// SAFETY: who takes an array out of the exchange owns it and the blocks in it.
unsafe impl Send for SlotArray {}

/// A queue of arrays, a few more than there are workers: who gives one back and takes one gets that of
/// another.
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
        for slot in self.waiting().iter_mut().flat_map(|array| array.0.iter_mut()) {
            // SAFETY: the slot holds null or a live block, and is emptied.
            unsafe { c_heap::release(std::mem::replace(slot, std::ptr::null_mut())) };
        }
    }
}
