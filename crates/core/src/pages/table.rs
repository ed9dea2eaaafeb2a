//! A table that grows inside one reservation, so that its entries never move.

use crate::base::round_up;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::os::Os;

/// Memory is taken in steps of this many bytes.
const STEP_BYTES: usize = 64 << 10;

/// Entries of `T`, all zero when they appear. `T` must be valid when zeroed.
pub struct Table<T> {
    base: AtomicUsize,
    committed_bytes: AtomicUsize,
    reserved_bytes: AtomicUsize,
    capacity: AtomicUsize,
    entry: core::marker::PhantomData<fn() -> T>,
}

impl<T> Table<T> {
    /// Where the address of the first entry lies.
    pub const BASE: usize = core::mem::offset_of!(Self, base);

    pub const fn new() -> Self {
        Table {
            base: AtomicUsize::new(0),
            committed_bytes: AtomicUsize::new(0),
            reserved_bytes: AtomicUsize::new(0),
            capacity: AtomicUsize::new(0),
            entry: core::marker::PhantomData,
        }
    }

    /// Reserves addresses for `capacity` entries. Called once, before any other thread knows the table.
    pub fn start<O: Os>(&self, os: &O, capacity: usize) -> bool {
        let bytes = round_up(capacity * size_of::<T>(), STEP_BYTES);
        let Some(base) = os.reserve(bytes) else { return false };
        self.base.store(base, Ordering::Relaxed);
        self.reserved_bytes.store(bytes, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        true
    }

    /// Undoes `start`.
    pub fn stop<O: Os>(&self, os: &O) {
        let base = self.base.swap(0, Ordering::Relaxed);
        if base != 0 {
            os.unmap(base, self.reserved_bytes.load(Ordering::Relaxed));
        }
        self.committed_bytes.store(0, Ordering::Relaxed);
    }

    /// Makes entries `0..count` usable; false where the system refuses. The caller holds the lock of the
    /// table's owner.
    pub fn ensure<O: Os>(&self, os: &O, count: usize) -> bool {
        let committed = self.committed_bytes.load(Ordering::Relaxed);
        let wanted = count * size_of::<T>();
        if wanted <= committed {
            return true;
        }
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        let target = round_up(wanted, STEP_BYTES);
        if target > reserved || !os.commit(self.base.load(Ordering::Relaxed) + committed, target - committed)
        {
            return false;
        }
        // Pairs with the Acquire in `committed`: who sees the new length sees usable memory.
        self.committed_bytes.store(target, Ordering::Release);
        true
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

    #[cfg(any(test, feature = "fake-os"))]
    pub fn reservation(&self) -> (usize, usize) {
        (self.base.load(Ordering::Relaxed), self.reserved_bytes.load(Ordering::Relaxed))
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
