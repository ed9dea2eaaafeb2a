//! A mutex that waits in the kernel and wakes at most one thread at a time.
//!
//! Threads may overtake those that were woken. With many more threads than CPUs that matters: a woken thread
//! may not run for a long while, and a mutex that hands itself over, or wakes somebody at each unlock
//! meanwhile, makes every critical section cost a change of threads (the "lock convoy" of M. Blasgen et al.,
//! 1979). So the state says whether a woken thread is on its way; until it has looked, nobody else is woken.

use super::witness;
use crate::base::locks::{Rank, Ranked};
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, UnsafeCell, pause};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// The state: whether the mutex is held, whether somebody was woken and has not looked yet, and the number of
/// waiters.
const HELD: u32 = 1;
const WOKEN: u32 = 2;
const WAITER: u32 = 4;

/// Looks at the word before waiting: a critical section is shorter than a system call, but with more threads
/// than CPUs its holder may not be running, so the look is short.
#[cfg(not(loom))]
const LOOKS: u32 = 48;
#[cfg(loom)]
const LOOKS: u32 = 0;
/// A thread that was woken looks longer before it sleeps again: meanwhile nobody else is woken, and no unlock is a system
/// call. One thread at a time is woken for a mutex.
#[cfg(not(loom))]
const LOOKS_WHEN_WOKEN: u32 = 256;
#[cfg(loom)]
const LOOKS_WHEN_WOKEN: u32 = 1;

/// How a thread waits for a word to change.
pub trait Wait {
    /// Returns at once if `word` is not `expected`; may return for no reason.
    fn wait(word: &AtomicU32, expected: u32);
    /// Wakes one thread that waits on `word`.
    fn wake_one(word: &AtomicU32);
    /// This thread's number for locks: not 0, and that of no other living thread.
    fn mark() -> usize;
    /// This thread has just taken the lock at this address. For a system that counts; others have no instruction for it.
    #[inline(always)]
    fn taken(_lock: usize, _rank: Rank) {}
    /// It is about to leave it.
    #[inline(always)]
    fn left(_lock: usize, _rank: Rank) {}
}

/// Mutual exclusion over a `T`, which says its place in the order of locks. Any thread may call; not recursive; a child
/// process calls `seize`.
pub struct Mutex<T, W> {
    state: AtomicU32,
    /// Counts the wake-ups; waiters sleep on it.
    wakes: AtomicU32,
    /// The mark of the thread that holds the mutex; 0 for an instant after it took it and before it leaves
    /// it.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
    wait: PhantomData<fn() -> W>,
}

// SAFETY: `value` is reached only through a Guard, and the state word admits one Guard at a time.
unsafe impl<T: Send, W> Sync for Mutex<T, W> {}

impl<T: Ranked, W: Wait> Mutex<T, W> {
    /// The offsets of the state word and of the value.
    pub const STATE: usize = core::mem::offset_of!(Self, state);
    pub const VALUE: usize = core::mem::offset_of!(Self, value);

    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Mutex {
            state: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
            wait: PhantomData,
        }
    }

    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Mutex {
            state: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
            wait: PhantomData,
        }
    }

    #[inline]
    pub fn lock(&self) -> Guard<'_, T, W> {
        witness::look(W::mark, T::RANK);
        self.wait_for();
        witness::taken(W::mark, T::RANK);
        W::taken(self.address(), T::RANK);
        Guard { mutex: self }
    }

    #[inline]
    fn wait_for(&self) {
        if !self.take_if_free() {
            self.lock_contended();
        }
    }

    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, W>> {
        let taken = self.take_if_free();
        if taken {
            witness::taken(W::mark, T::RANK);
            W::taken(self.address(), T::RANK);
        }
        if taken { Some(Guard { mutex: self }) } else { None }
    }

    /// As `lock`, but does not wait for a holder that is slow or has no CPU: for who can do without.
    #[inline]
    pub fn lock_soon(&self) -> Option<Guard<'_, T, W>> {
        match self.try_lock() {
            None => self.look_for_it(),
            taken => taken,
        }
    }

    #[cold]
    fn look_for_it(&self) -> Option<Guard<'_, T, W>> {
        (0..LOOKS).find_map(|_| {
            pause();
            self.try_lock()
        })
    }

    /// Whether it is this thread that holds the mutex: a signal handler may have interrupted it there.
    pub fn is_own(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == W::mark()
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Overtakes those that wait.
    #[inline]
    fn take_if_free(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        // Acquire pairs with the Release in `unlock`: this thread sees what the last holder wrote.
        let taken = state & HELD == 0
            && self.state.compare_exchange(state, state | HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            self.holder.store(W::mark(), Ordering::Relaxed);
        }
        taken
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..LOOKS {
            if self.take_if_free() {
                return;
            }
            pause();
        }
        self.state.fetch_add(WAITER, Ordering::Relaxed);
        loop {
            // The ticket first: a wake-up after this line changes it, so that the sleep below ends at once.
            let ticket = self.wakes.load(Ordering::Acquire);
            // This thread is awake and looks: a thread that unlocks from here on must wake somebody again.
            let state = self.state.fetch_and(!WOKEN, Ordering::Relaxed) & !WOKEN;
            if state & HELD != 0 {
                W::wait(&self.wakes, ticket);
                if self.take_when_woken() {
                    return;
                }
            } else if self
                .state
                .compare_exchange(state, (state | HELD) - WAITER, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return self.holder.store(W::mark(), Ordering::Relaxed);
            }
        }
    }

    /// For a waiter that was woken, and looks for a while before it sleeps again.
    fn take_when_woken(&self) -> bool {
        for _ in 0..LOOKS_WHEN_WOKEN {
            let state = self.state.load(Ordering::Relaxed);
            if state & HELD != 0 {
                pause();
            } else if self
                .state
                .compare_exchange(
                    state,
                    ((state | HELD) & !WOKEN) - WAITER,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                self.holder.store(W::mark(), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    #[inline]
    fn unlock(&self) {
        W::left(self.address(), T::RANK);
        witness::left(W::mark, T::RANK);
        self.holder.store(0, Ordering::Relaxed);
        let state = self.state.fetch_sub(HELD, Ordering::Release);
        if state != HELD {
            self.unlock_more(state);
        }
    }

    /// The rest of `unlock` where more than one holder was in the state before it.
    #[cold]
    fn unlock_more(&self, before: u32) {
        if before & HELD == 0 {
            // Taken from this thread: it forked in a handler that interrupted it between the two stores of a
            // lock or an unlock, where nobody knows the holder, and the child seized and released the mutex.
            self.state.fetch_add(HELD, Ordering::Relaxed);
        } else {
            self.wake(before - HELD);
        }
    }

    /// Wakes a waiter, unless somebody took the mutex meanwhile, who will, or somebody was woken.
    #[cold]
    fn wake(&self, mut state: u32) {
        while state >= WAITER && state & (HELD | WOKEN) == 0 {
            match self.state.compare_exchange(state, state | WOKEN, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // Release pairs with the Acquire of the ticket: a thread that reads the new ticket sees
                    // WOKEN and clears it.
                    self.wakes.fetch_add(1, Ordering::Release);
                    return W::wake_one(&self.wakes);
                }
                Err(now) => state = now,
            }
        }
    }

    /// Takes the lock without a guard, as a thread that stays in the parent may have it: beside others of its rank, and
    /// not in this thread's hand, which may end before the lock is left.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn hold(&self) {
        self.wait_for();
    }

    /// Ends `hold` or `seize`.
    ///
    /// # Safety
    /// This thread called one of them and has not released since.
    pub unsafe fn release(&self) {
        self.unlock();
    }

    /// Takes the mutex over from a holder that does not exist; false where it is free, or this thread's own.
    /// Its value may be half changed. `release` ends it. `outermost`: this thread is in no work that a signal
    /// handler interrupted, so nothing is its own, whatever the mark says: a new thread may have that of one that is
    /// gone.
    ///
    /// # Safety
    /// All threads that could hold the mutex, but this one, stayed in the parent process.
    pub unsafe fn seize(&self, outermost: bool) -> bool {
        let mark = W::mark();
        let is_own = !outermost && self.holder.load(Ordering::Relaxed) == mark;
        if self.state.load(Ordering::Relaxed) & HELD == 0 || is_own {
            return false;
        }
        // Waiters that do not exist stay counted: one of them may be this thread, interrupted as it waited.
        // Nobody is on his way.
        self.state.fetch_and(!WOKEN, Ordering::Relaxed);
        witness::left(|| self.holder.load(Ordering::Relaxed), T::RANK);
        self.holder.store(mark, Ordering::Relaxed);
        witness::taken(|| mark, T::RANK);
        true
    }

    /// Sets the mutex free that such a holder has. For one that guards no value.
    ///
    /// # Safety
    /// All threads that could hold the mutex, but this one, stayed in the parent process.
    pub unsafe fn take_over(&self, outermost: bool) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            if self.seize(outermost) {
                self.release();
            }
        }
    }

    /// The mutex as it is in a child where it was free and others waited for it in the parent, one of them woken.
    #[cfg(test)]
    pub fn leave_as_with_waiters_that_are_gone(&self) {
        self.state.fetch_add(WOKEN + 2 * WAITER, Ordering::Relaxed);
    }

    /// The address of the guarded value, for a look without the mutex.
    pub fn as_ptr(&self) -> *const T {
        self.value.with(|value| value)
    }

    /// The value that the mutex guards, for a thread that took it without a guard.
    ///
    /// # Safety
    /// This thread holds the mutex by `hold` or `seize`, and makes no second reference.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn seized(&self) -> &mut T {
        // SAFETY: by the caller's promise.
        unsafe { &mut *self.value.with_mut(|value| value) }
    }
}

/// A lock whatever it guards, as a thread that stays in the parent may have it.
#[cfg(any(test, feature = "fake-os"))]
pub trait AnyLock {
    fn rank(&self) -> Rank;
    fn hold(&self);
    /// # Safety
    /// After `hold` by this thread.
    unsafe fn release(&self);
    fn is_held(&self) -> bool;
}

#[cfg(any(test, feature = "fake-os"))]
impl<T: Ranked, W: Wait> AnyLock for Mutex<T, W> {
    fn rank(&self) -> Rank {
        T::RANK
    }

    fn hold(&self) {
        self.hold();
    }

    unsafe fn release(&self) {
        self.unlock();
    }

    fn is_held(&self) -> bool {
        self.state.load(Ordering::Relaxed) & HELD != 0
    }
}

/// The right to use the value; dropping it unlocks.
pub struct Guard<'a, T: Ranked, W: Wait> {
    mutex: &'a Mutex<T, W>,
}

impl<T: Ranked, W: Wait> Deref for Guard<'_, T, W> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the mutex.
        unsafe { &*self.mutex.value.with(|value| value) }
    }
}

impl<T: Ranked, W: Wait> DerefMut for Guard<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists and is borrowed mutably, so nobody else looks at the value.
        unsafe { &mut *self.mutex.value.with_mut(|value| value) }
    }
}

impl<T: Ranked, W: Wait> Drop for Guard<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    struct Counter(usize);

    impl Ranked for Counter {
        const RANK: Rank = Rank::Starting;
    }

    struct Yield;

    /// Sleeps until the word changes: a wake-up that is lost is a model that never ends.
    impl Wait for Yield {
        fn wait(word: &AtomicU32, expected: u32) {
            while word.load(Ordering::Relaxed) == expected {
                loom::thread::yield_now();
            }
        }
        fn wake_one(_: &AtomicU32) {}
        fn mark() -> usize {
            2
        }
    }

    #[test]
    fn loom_two_threads_never_hold_the_mutex_together() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counter = Arc::new(Mutex::<Counter, Yield>::new(Counter(0)));
            let other = counter.clone();
            let thread = loom::thread::spawn(move || other.lock().0 += 1);
            counter.lock().0 += 1;
            thread.join().unwrap();
            assert_eq!(counter.lock().0, 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::Linux;
    use std::sync::Arc;

    struct Number(u64);

    impl Ranked for Number {
        const RANK: Rank = Rank::Freezer;
    }

    #[test]
    fn every_increment_under_the_mutex_counts() {
        let counter = Arc::new(Mutex::<Number, Linux>::new(Number(0)));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let counter = counter.clone();
                std::thread::spawn(move || (0..20_000).for_each(|_| counter.lock().0 += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(counter.lock().0, 160_000);
    }

    #[test]
    fn a_held_mutex_refuses_to_be_tried_and_opens_after_release() {
        let mutex = Mutex::<Number, Linux>::new(Number(1));
        mutex.hold();
        assert!(mutex.try_lock().is_none() && mutex.lock_soon().is_none());
        // SAFETY: held by the line above.
        unsafe { mutex.release() };
        assert!(mutex.try_lock().is_some() && mutex.lock_soon().is_some());
    }

    #[test]
    fn a_mutex_that_was_seized_from_its_interrupted_holder_can_still_be_left() {
        let mutex = Mutex::<Number, Linux>::new(Number(0));
        let held = mutex.lock();
        mutex.holder.store(0, Ordering::Relaxed);
        // SAFETY: this is the only thread; it stands where a handler would have interrupted it.
        unsafe {
            assert!(mutex.seize(false));
            mutex.release();
        }
        drop(held);
        assert_eq!(mutex.state.load(Ordering::Relaxed), 0);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn a_mutex_is_seized_from_a_thread_that_is_gone_but_neither_from_oneself_nor_from_nobody() {
        let mutex = Mutex::<Number, Linux>::new(Number(7));
        // SAFETY: no other thread is left that could hold the mutex.
        unsafe {
            assert!(!mutex.seize(false) && !mutex.seize(true), "free");
            mutex.hold();
            assert!(!mutex.seize(false), "our own");
            mutex.release();
            std::thread::scope(|scope| scope.spawn(|| mutex.hold()).join()).unwrap();
            assert!(mutex.try_lock().is_none() && mutex.seize(false));
            assert_eq!(mutex.seized().0, 7);
            assert!(!mutex.seize(false), "our own by now");
            assert!(mutex.seize(true), "of one that is gone and had our mark");
            mutex.release();
        }
        assert!(mutex.try_lock().is_some());
    }
}
