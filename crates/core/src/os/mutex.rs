//! A mutex of one word that waits in the kernel.
//!
//! Three states, after U. Drepper, "Futexes Are Tricky" (2011): free, held, held with waiters.

use crate::base::sync::{AtomicU32, Ordering, pause};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// Looks at the word before waiting: a critical section is shorter than a system call, but with more threads than
/// CPUs its holder may not be running, so the look is short.
const LOOKS: u32 = 48;

/// How a thread waits for a word to change.
pub trait Wait {
    /// Returns at once if `word` is not `expected`; may return for no reason.
    fn wait(word: &AtomicU32, expected: u32);
    /// Wakes one thread that waits on `word`.
    fn wake_one(word: &AtomicU32);
}

/// Mutual exclusion over a `T`. Any thread may call; not recursive; a forked child calls `reset`.
pub struct Mutex<T, W> {
    state: AtomicU32,
    value: UnsafeCell<T>,
    wait: PhantomData<fn() -> W>,
}

// SAFETY: `value` is reached only through a Guard, and the state word admits one Guard at a time.
unsafe impl<T: Send, W> Sync for Mutex<T, W> {}

impl<T, W: Wait> Mutex<T, W> {
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Mutex { state: AtomicU32::new(FREE), value: UnsafeCell::new(value), wait: PhantomData }
    }

    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Mutex { state: AtomicU32::new(FREE), value: UnsafeCell::new(value), wait: PhantomData }
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T, W> {
        // Acquire pairs with the Release in `unlock`: what the last holder wrote is seen.
        if self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
        Guard { mutex: self }
    }

    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, W>> {
        match self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Guard { mutex: self }),
            Err(_) => None,
        }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..LOOKS {
            if self.state.load(Ordering::Relaxed) == FREE
                && self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            pause();
        }
        // From here on the word says that somebody may wait, so that the holder wakes us.
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            W::wait(&self.state, AWAITED);
        }
    }

    #[inline]
    fn unlock(&self) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            W::wake_one(&self.state);
        }
    }

    /// Takes the lock without a guard, across `fork`.
    pub fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// Ends `hold`.
    ///
    /// # Safety
    /// This thread called `hold` and has not released since.
    pub unsafe fn release(&self) {
        self.unlock();
    }

    /// Ends `hold` in a forked child, where no thread waits.
    ///
    /// # Safety
    /// The process has one thread.
    pub unsafe fn reset(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

/// The right to use the value; dropping it unlocks.
pub struct Guard<'a, T, W: Wait> {
    mutex: &'a Mutex<T, W>,
}

impl<T, W: Wait> Deref for Guard<'_, T, W> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T, W: Wait> DerefMut for Guard<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists and is borrowed mutably, so nobody else looks at the value.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T, W: Wait> Drop for Guard<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    struct Yield;

    impl Wait for Yield {
        fn wait(word: &AtomicU32, expected: u32) {
            if word.load(Ordering::Relaxed) == expected {
                loom::thread::yield_now();
            }
        }
        fn wake_one(_: &AtomicU32) {}
    }

    #[test]
    fn loom_two_threads_never_hold_the_mutex_together() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counter = Arc::new(Mutex::<usize, Yield>::new(0));
            let other = counter.clone();
            let thread = loom::thread::spawn(move || *other.lock() += 1);
            *counter.lock() += 1;
            thread.join().unwrap();
            assert_eq!(*counter.lock(), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::Linux;
    use std::sync::Arc;

    #[test]
    fn every_increment_under_the_mutex_counts() {
        let counter = Arc::new(Mutex::<u64, Linux>::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let counter = counter.clone();
                std::thread::spawn(move || (0..20_000).for_each(|_| *counter.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*counter.lock(), 160_000);
    }

    #[test]
    fn a_held_mutex_refuses_to_be_tried_and_opens_after_release() {
        let mutex = Mutex::<u8, Linux>::new(1);
        mutex.hold();
        assert!(mutex.try_lock().is_none());
        // SAFETY: held by the line above.
        unsafe { mutex.release() };
        assert!(mutex.try_lock().is_some());
    }
}
