//! The transfer array of one class: free blocks on their way from one virtual CPU to another.

use crate::base::locks::{Rank, Ranked};
use core::sync::atomic::{Ordering, compiler_fence};

/// A stack of free blocks in memory that somebody else provides. Belongs to the lock of its class.
pub struct Transfer {
    entries: *mut usize,
    /// Blocks that the memory has places for.
    places: u32,
    len: u32,
    /// Blocks that the budget allows here.
    capacity: u32,
    /// The least number of blocks since `low_water` was asked last: nobody needed those.
    low: u32,
    /// The most blocks at a time since `forget` was called last: so many places have memory.
    most: u32,
    /// The memory is being given back: until that is over nothing is put here.
    is_away: bool,
}

// SAFETY: the array behind `entries` is used by the holder of the lock only.
unsafe impl Send for Transfer {}

impl Ranked for Transfer {
    const RANK: Rank = Rank::Transfer;
}

impl Transfer {
    pub const fn new() -> Self {
        Transfer {
            entries: core::ptr::null_mut(),
            places: 0,
            len: 0,
            capacity: 0,
            low: 0,
            most: 0,
            is_away: false,
        }
    }

    /// Provides the memory: so many words that nobody else uses, for as long as the heap lives.
    pub fn provide(&mut self, entries: *mut usize, places: usize) {
        self.places = places as u32;
        // In a child process that is made here there is no memory yet.
        compiler_fence(Ordering::Release);
        self.entries = entries;
    }

    pub fn has_memory(&self) -> bool {
        !self.entries.is_null()
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// How much more could be allowed.
    pub fn may_grow(&self) -> usize {
        (self.places - self.capacity) as usize
    }

    /// Blocks that were here all the time since this was asked last.
    pub fn low_water(&mut self) -> usize {
        core::mem::replace(&mut self.low, self.len) as usize
    }

    /// Allows `more` further blocks, as far as the array is long enough; returns how many.
    pub fn grow(&mut self, more: usize) -> usize {
        let granted = more.min(self.may_grow());
        self.capacity += granted as u32;
        granted
    }

    /// Gives up capacity that holds no block, at most `wanted`; returns how much.
    pub fn shrink(&mut self, wanted: usize) -> usize {
        let given = wanted.min(self.capacity() - self.len());
        self.capacity -= given as u32;
        given
    }

    /// Keeps as many of `blocks` as there is room for; returns how many.
    pub fn put(&mut self, blocks: &[usize]) -> usize {
        let count = if self.is_away { 0 } else { blocks.len().min(self.capacity() - self.len()) };
        // SAFETY: len + count is at most capacity, which is at most `places` and 0 without memory.
        unsafe { core::ptr::copy_nonoverlapping(blocks.as_ptr(), self.entries.add(self.len()), count) };
        // A child process may be made here: the entries that count are there already.
        compiler_fence(Ordering::Release);
        self.len += count as u32;
        self.most = self.most.max(self.len);
        count
    }

    /// For an empty array: the address of its memory and the bytes that were used, which the caller may give
    /// back without the lock. Nothing is put here until `come_back`.
    pub fn forget(&mut self) -> Option<(usize, usize)> {
        if self.len > 0 || self.most == 0 || self.is_away {
            return None;
        }
        self.is_away = true;
        let used = core::mem::take(&mut self.most) as usize * size_of::<usize>();
        Some((self.entries.expose_provenance(), used))
    }

    /// The memory is there again, or as new.
    pub fn come_back(&mut self) {
        self.is_away = false;
    }

    /// Whether a block is here.
    pub fn holds(&self, block: usize) -> bool {
        // SAFETY: the entries below len were written by `put`.
        (0..self.len()).any(|place| unsafe { self.entries.add(place).read() } == block)
    }

    /// Fills `out` from the block put last on; returns how many.
    pub fn take(&mut self, out: &mut [usize]) -> usize {
        let count = out.len().min(self.len());
        self.len -= count as u32;
        self.low = self.low.min(self.len);
        // SAFETY: the entries from len on were written by `put`.
        unsafe { core::ptr::copy_nonoverlapping(self.entries.add(self.len()), out.as_mut_ptr(), count) };
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_beyond_the_capacity_and_everything_kept_comes_back() {
        let mut memory = vec![0usize; 8];
        let mut transfer = Transfer::new();
        assert_eq!((transfer.grow(10), transfer.put(&[1])), (0, 0), "without memory nothing is kept");
        transfer.provide(memory.as_mut_ptr(), 8);
        assert_eq!(transfer.put(&[1]), 0, "without capacity neither");
        assert_eq!(transfer.grow(3), 3);
        assert_eq!(transfer.put(&[1, 2, 3, 4]), 3);
        assert_eq!(transfer.shrink(5), 0, "capacity in use stays");
        let mut out = [0; 2];
        assert_eq!((transfer.take(&mut out), out), (2, [2, 3]));
        assert_eq!((transfer.shrink(5), transfer.capacity()), (2, 1));
        assert_eq!((transfer.grow(usize::MAX), transfer.capacity()), (7, 8), "no more than there are places");
    }

    #[test]
    fn what_was_used_is_forgotten_once_and_only_when_nothing_is_in_it() {
        let mut memory = vec![0usize; 10];
        let mut transfer = Transfer::new();
        transfer.provide(memory.as_mut_ptr(), 10);
        transfer.grow(10);
        transfer.put(&[1, 2, 3]);
        transfer.take(&mut [0; 2]);
        assert_eq!(transfer.forget(), None);
        transfer.take(&mut [0; 1]);
        assert_eq!(transfer.forget(), Some((memory.as_mut_ptr().expose_provenance(), 24)));
        assert_eq!((transfer.forget(), transfer.put(&[4])), (None, 0), "its memory is on its way");
        transfer.come_back();
        assert_eq!((transfer.forget(), transfer.put(&[4])), (None, 1));
    }

    #[test]
    fn the_low_water_mark_is_what_nobody_took() {
        let mut memory = vec![0usize; 10];
        let mut transfer = Transfer::new();
        transfer.provide(memory.as_mut_ptr(), 10);
        transfer.grow(10);
        transfer.put(&[1, 2, 3, 4, 5]);
        assert_eq!(transfer.low_water(), 0, "they came only now");
        transfer.take(&mut [0; 2]);
        transfer.put(&[6, 7]);
        assert_eq!(transfer.low_water(), 3);
        assert_eq!(transfer.low_water(), 5);
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::sync::UnsafeCell;
    use crate::os::Mutex;
    use crate::os::yields::Yield;
    use loom::sync::Arc;

    #[test]
    fn loom_a_block_that_crosses_the_transfer_array_is_had_by_one_thread_with_what_was_done_in_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let mut transfer = Transfer::new();
            transfer.provide(Box::leak(Box::new([0usize; 2])).as_mut_ptr(), 2);
            transfer.grow(2);
            transfer.put(&[1]);
            let blocks = [(); 2].map(|()| UnsafeCell::new(0));
            let shared = Arc::new((Mutex::<Transfer, Yield>::new(transfer), blocks));
            let other = shared.clone();
            // SAFETY: the thread that has a block uses it. Loom looks.
            let write = |block: &UnsafeCell<u32>| block.with_mut(|block| unsafe { *block += 1 });
            let take_one = move |(transfer, blocks): &(Mutex<Transfer, Yield>, [UnsafeCell<u32>; 2])| {
                let mut out = [0; 1];
                assert_eq!(transfer.lock().take(&mut out), 1);
                write(&blocks[out[0]]);
                out[0]
            };
            let thread = loom::thread::spawn(move || {
                write(&other.1[0]);
                other.0.lock().put(&[0]);
                take_one(&other)
            });
            let mine = take_one(&shared);
            assert_ne!(mine, thread.join().unwrap());
        });
    }
}
