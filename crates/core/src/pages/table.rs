//! A table that grows where it lies, so that its entries never move: inside a reservation, or at a place where nothing
//! else is.

use crate::base::place::Places;
use crate::base::round_up;
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::os::{Os, Purpose};

/// Memory is taken in steps of this many bytes.
pub const STEP_BYTES: usize = 64 << 10;

/// Entries of `T`, all zero when they appear. `T` must be valid when zeroed.
pub struct Table<T> {
    base: AtomicUsize,
    committed_bytes: AtomicUsize,
    /// While the system is asked: how long the table will be, or has been. Else 0.
    asked_bytes: AtomicUsize,
    /// Bytes that it can have at most.
    most_bytes: AtomicUsize,
    capacity: AtomicUsize,
    /// They were reserved.
    reserved: AtomicBool,
    entry: core::marker::PhantomData<fn() -> T>,
}

impl<T> Table<T> {
    /// The offset of the address of the first entry.
    pub const BASE: usize = core::mem::offset_of!(Self, base);

    /// Adds where it lies, of a table at this offset in the heap.
    pub const fn places(list: Places, name: &str, at: usize) -> Places {
        list.mapping(name, at + Self::BASE, at + core::mem::offset_of!(Self, committed_bytes))
    }

    pub const fn new() -> Self {
        Table {
            base: AtomicUsize::new(0),
            committed_bytes: AtomicUsize::new(0),
            asked_bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(0),
            capacity: AtomicUsize::new(0),
            reserved: AtomicBool::new(false),
            entry: core::marker::PhantomData,
        }
    }

    /// Reserves addresses for `capacity` entries. Called once, before any other thread knows the table.
    pub fn start<O: Os>(&self, os: &O, capacity: usize) -> bool {
        let Some(base) = os.reserve(Self::bytes_for(capacity)) else { return false };
        os.name_pages(base, Self::bytes_for(capacity), Purpose::Tables);
        self.start_at(base, capacity);
        self.reserved.store(true, Ordering::Relaxed);
        true
    }

    /// Begins the table at an address where nothing is mapped. Called before any other thread knows the table.
    pub fn start_at(&self, base: usize, capacity: usize) {
        self.base.store(base, Ordering::Relaxed);
        self.most_bytes.store(Self::bytes_for(capacity), Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Bytes of a table of so many entries.
    pub const fn bytes_for(capacity: usize) -> usize {
        round_up(capacity * size_of::<T>(), STEP_BYTES)
    }

    /// Undoes `start`.
    pub fn stop<O: Os>(&self, os: &O) {
        let base = self.base.swap(0, Ordering::Relaxed);
        let committed = self.committed_bytes.swap(0, Ordering::Relaxed);
        let reserved = self.reserved.swap(false, Ordering::Relaxed);
        let bytes = if reserved { self.most_bytes.load(Ordering::Relaxed) } else { committed };
        if bytes != 0 {
            os.unmap(base, bytes);
        }
    }

    /// Makes entries `0..count` usable; false where the system refuses. The caller holds the lock of the
    /// table's owner.
    pub fn ensure<O: Os>(&self, os: &O, count: usize) -> bool {
        let committed = self.committed_bytes.load(Ordering::Relaxed);
        let wanted = count * size_of::<T>();
        wanted <= committed || self.add(os, round_up(wanted, STEP_BYTES), true)
    }

    /// Makes entries `0..count` readable, of which the new ones are zero and stay so: no memory is taken for them, but
    /// for those that share a step with the others. The caller holds the lock of the table's owner.
    pub fn pass<O: Os>(&self, os: &O, count: usize) -> bool {
        let target = count * size_of::<T>() / STEP_BYTES * STEP_BYTES;
        target <= self.committed_bytes.load(Ordering::Relaxed) || self.add(os, target, false)
    }

    /// Undoes what `ensure` and `pass` did since there were so many bytes, before anybody else knows of it.
    pub fn cut<O: Os>(&self, os: &O, bytes: usize) {
        let committed = self.committed_bytes.load(Ordering::Relaxed);
        if bytes < committed {
            // First: a child must not count on what is not mapped any more.
            self.asked_bytes.store(committed, Ordering::Relaxed);
            self.committed_bytes.store(bytes, Ordering::Release);
            os.unmap(self.base.load(Ordering::Relaxed) + bytes, committed - bytes);
            self.asked_bytes.store(0, Ordering::Relaxed);
        }
    }

    fn add<O: Os>(&self, os: &O, target: usize, writable: bool) -> bool {
        let committed = self.committed_bytes.load(Ordering::Relaxed);
        let (start, bytes) = (self.base.load(Ordering::Relaxed) + committed, target - committed);
        let asked = self.asked_bytes.load(Ordering::Relaxed);
        if asked > committed && !self.reserved.load(Ordering::Relaxed) {
            // A thread that stayed in the parent was here: in this process nobody knows what it mapped.
            os.unmap(start, asked - committed);
        }
        self.asked_bytes.store(target, Ordering::Relaxed);
        let is_there = target <= self.most_bytes.load(Ordering::Relaxed)
            && match (self.reserved.load(Ordering::Relaxed), writable) {
                (true, _) => os.commit(start, bytes),
                (false, true) => os.map_at(start, bytes).is_ok(),
                (false, false) => os.map_zeros_at(start, bytes).is_ok(),
            };
        if is_there {
            if !self.reserved.load(Ordering::Relaxed) {
                os.name_pages(start, bytes, Purpose::Tables);
            }
            // Pairs with the Acquire in `usable`: a thread that sees the new length sees usable memory.
            self.committed_bytes.store(target, Ordering::Release);
        }
        self.asked_bytes.store(0, Ordering::Relaxed);
        is_there
    }

    /// Entries that can be used now.
    pub fn usable(&self) -> usize {
        self.committed_bytes.load(Ordering::Acquire) / size_of::<T>()
    }

    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Address and length in bytes of the part that can be used.
    pub fn range(&self) -> (usize, usize) {
        (self.base.load(Ordering::Relaxed), self.committed_bytes.load(Ordering::Acquire))
    }

    /// Address and length in bytes of what is reserved, or can be used.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn reservation(&self) -> (usize, usize) {
        match self.range() {
            (base, _) if self.reserved.load(Ordering::Relaxed) => {
                (base, self.most_bytes.load(Ordering::Relaxed))
            }
            range => range,
        }
    }

    /// The address of an entry, which must be below `usable`.
    #[inline(always)]
    pub fn at(&self, index: usize) -> *mut T {
        debug_assert!(index < self.usable());
        core::ptr::with_exposed_provenance_mut::<T>(self.base.load(Ordering::Relaxed)).wrapping_add(index)
    }

    /// An entry that any thread may look at and change: `T` is made of atomics.
    ///
    /// # Safety
    /// `index` is below `usable`.
    #[inline(always)]
    pub unsafe fn shared(&self, index: usize) -> &T
    where
        T: Sync,
    {
        // SAFETY: by the caller's promise the entry is there, as long as the table is; all bits of it are
        // valid.
        unsafe { &*self.at(index) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    #[test]
    fn a_table_grows_in_a_child_that_was_forked_while_another_thread_made_it_longer() {
        let (os, table) = (Fake::default(), Table::<u64>::new());
        let base = os.free_range(64 << 20).unwrap().address;
        table.start_at(base, 1 << 20);
        assert!(table.ensure(&os, 10));
        let (_, before) = table.range();
        // The other thread has mapped the next step and has not said so.
        assert_eq!(os.map_at(base + before, 2 * STEP_BYTES), Ok(()));
        table.asked_bytes.store(before + 2 * STEP_BYTES, Ordering::Relaxed);
        assert!(table.ensure(&os, (before + STEP_BYTES) / size_of::<u64>()));
        assert!(table.ensure(&os, (before + 5 * STEP_BYTES) / size_of::<u64>()));
        assert_eq!(table.asked_bytes.load(Ordering::Relaxed), 0);
        table.stop(&os);
    }
}
