//! A misuse that the janitor found, on its way to a thread that can end the process for it.

use crate::base::fault::Misuse;
use crate::base::sync::{AtomicU32, Ordering, UnsafeCell};
use core::mem::MaybeUninit;

const NOTHING: u32 = 0;
const TELLING: u32 = 1;
const TOLD: u32 = 2;
const TAKEN: u32 = 3;

/// The first misuse that was found; the process ends with it.
pub struct PendingFault {
    state: AtomicU32,
    misuse: UnsafeCell<MaybeUninit<Misuse>>,
}

// SAFETY: written by the one thread that makes it TELLING, read by the one that makes it TAKEN.
unsafe impl Sync for PendingFault {}

impl PendingFault {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        PendingFault { state: AtomicU32::new(NOTHING), misuse: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        PendingFault { state: AtomicU32::new(NOTHING), misuse: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    fn moves(&self, from: u32, to: u32) -> bool {
        // Acquire pairs with the Release in `tell`: a thread that takes the misuse sees all of it.
        self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub fn tell(&self, misuse: Misuse) {
        if self.moves(NOTHING, TELLING) {
            // SAFETY: of all threads this one made the state TELLING.
            unsafe { self.misuse.with_mut(|place| (*place).write(misuse)) };
            self.state.store(TOLD, Ordering::Release);
        }
    }

    /// In a new process the thread that was about to tell is not there.
    pub fn forget_teller(&self) {
        self.moves(TELLING, NOTHING);
    }

    #[inline]
    pub fn is_told(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TOLD
    }

    #[inline]
    pub fn take(&self) -> Option<Misuse> {
        // SAFETY: TOLD after it was written, and of all threads this one made the state TAKEN.
        (self.is_told() && self.moves(TOLD, TAKEN))
            .then(|| unsafe { self.misuse.with(|place| (*place).assume_init_read()) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::fault::Fault;

    #[test]
    fn the_first_misuse_is_taken_by_one() {
        let found = PendingFault::new();
        assert!(!found.is_told() && found.take().is_none());
        found.tell(Misuse::at(Fault::DoubleFree, 16));
        found.tell(Misuse::at(Fault::DoubleFree, 32));
        assert_eq!(found.take().map(|misuse| misuse.address), Some(16));
        assert!(!found.is_told() && found.take().is_none());
    }

    #[test]
    fn a_misuse_is_told_although_the_teller_before_stayed_in_the_parent() {
        let found = PendingFault::new();
        found.state.store(TELLING, Ordering::Relaxed);
        found.forget_teller();
        found.tell(Misuse::at(Fault::DoubleFree, 16));
        assert_eq!(found.take().map(|misuse| misuse.address), Some(16));
        found.forget_teller();
        assert!(found.take().is_none(), "what was taken stays so");
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::fault::Fault;
    use loom::sync::Arc;

    #[test]
    fn loom_who_takes_a_misuse_sees_all_of_it() {
        loom::model(|| {
            let found = Arc::new(PendingFault::new());
            let teller = found.clone();
            let thread = loom::thread::spawn(move || teller.tell(Misuse::at(Fault::DoubleFree, 16)));
            let taken = found.take();
            thread.join().unwrap();
            assert_eq!(taken.or_else(|| found.take()).map(|misuse| misuse.address), Some(16));
            assert!(found.take().is_none());
        });
    }
}
