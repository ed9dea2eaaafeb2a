//! The atomics and cells of this build: the machine's, or loom's model of them.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::cell::UnsafeCell;
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Tells the CPU, or loom, that this thread waits for another.
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Between two accesses of the order `SeqCst`, which are in one order of all. Loom knows such an order of fences alone.
#[inline(always)]
pub fn in_one_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Replaces the value by what `next` makes of it, however often other threads come between; `Ok` with the value before, or
/// `Err` with the one of which `next` made nothing. The name of the atomics' own function for this changed in Rust 1.99.
pub fn update(
    word: &AtomicUsize,
    set: Ordering,
    fetch: Ordering,
    mut next: impl FnMut(usize) -> Option<usize>,
) -> Result<usize, usize> {
    let mut before = word.load(fetch);
    while let Some(after) = next(before) {
        match word.compare_exchange_weak(before, after, set, fetch) {
            Ok(_) => return Ok(before),
            Err(now) => before = now,
        }
    }
    Err(before)
}

/// A cell with the functions of loom's, which looks at each use whether it comes after those of other threads: only
/// so a memory order that is too weak is seen.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// For reading: the address of the value.
    #[inline(always)]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// For writing.
    #[inline(always)]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}
