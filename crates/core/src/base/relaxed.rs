//! Numbers that are changed by one thread at a time, under a lock, and that any thread may look at without
//! it.
//!
//! A look may be old, and says nothing about what other numbers are at that moment: a thread
//! that wants to be sure takes the lock and looks again. Each is one plain load or store of the machine.

use super::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A number that can be noted.
pub trait Number: Copy {
    type Cell;
    fn load(cell: &Self::Cell) -> Self;
    fn store(self, cell: &Self::Cell);
}

macro_rules! numbers {
    ($($number:ty = $cell:ty;)+) => { $(
        impl Number for $number {
            type Cell = $cell;

            #[inline(always)]
            fn load(cell: &$cell) -> Self {
                cell.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(self, cell: &$cell) {
                cell.store(self, Ordering::Relaxed);
            }
        }
    )+ };
}

numbers! {
    u8 = AtomicU8;
    u32 = AtomicU32;
    u64 = AtomicU64;
    usize = AtomicUsize;
}

impl RelaxedCell<u32> {
    /// Writes the number that is there. Any thread may call.
    pub fn touch(&self) {
        self.0.fetch_or(0, Ordering::Relaxed);
    }
}

/// A number. All its bits may be zero at first.
#[repr(transparent)]
pub struct RelaxedCell<T: Number>(T::Cell);

impl<T: Number> RelaxedCell<T> {
    #[inline(always)]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    /// The caller holds the lock that the number belongs to.
    #[inline(always)]
    pub fn set(&self, value: T) {
        value.store(&self.0);
    }
}
