//! A bell: many ring it, one sleeps until it is rung. Ringing a bell that rings already is one load.

use super::Wait;
use crate::base::sync::{AtomicU32, Ordering};
use core::marker::PhantomData;

const QUIET: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// Any thread may ring; one thread takes and sleeps. One word, which is also rung from outside the process.
#[repr(transparent)]
pub struct Bell<W> {
    state: AtomicU32,
    wait: PhantomData<fn() -> W>,
}

impl<W: Wait> Bell<W> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Bell { state: AtomicU32::new(QUIET), wait: PhantomData }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Bell { state: AtomicU32::new(QUIET), wait: PhantomData }
    }

    /// Wakes the sleeper, or keeps it from falling asleep. For what happens again and again: if the bell rings
    /// already and is taken at this very moment, this ring may go unheard.
    #[inline]
    pub fn ring(&self) {
        if self.state.load(Ordering::Relaxed) != RUNG {
            self.call();
        }
    }

    /// Rings the bell for what must not be missed: also where it seems to be rung.
    #[inline]
    pub fn call(&self) {
        // Release pairs with the Acquire in `take` and `sleep`: a thread that hears the bell sees what was done before.
        if self.state.swap(RUNG, Ordering::Release) == ASLEEP {
            W::wake_one(&self.state);
        }
    }

    /// True if the bell was rung since it was last taken.
    pub fn take(&self) -> bool {
        self.state.swap(QUIET, Ordering::Acquire) == RUNG
    }

    /// Returns when the bell is rung; at once if it was rung since it was last taken.
    pub fn sleep(&self) {
        if self.state.compare_exchange(QUIET, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
            return;
        }
        while self.state.load(Ordering::Acquire) == ASLEEP {
            W::wait(&self.state, ASLEEP);
        }
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::sync::{AtomicBool, UnsafeCell};
    use crate::os::yields::Yield;
    use loom::sync::Arc;

    struct Shared {
        bell: Bell<Yield>,
        work: AtomicBool,
        result: UnsafeCell<u32>,
    }

    /// A thread works and rings; another, which got the bell as `before` left it, waits for that.
    fn race(before: fn(&Bell<Yield>), ring: fn(&Bell<Yield>), wait: fn(&Shared)) {
        loom::model(move || {
            let shared =
                Shared { bell: Bell::new(), work: AtomicBool::new(false), result: UnsafeCell::new(0) };
            before(&shared.bell);
            let shared = Arc::new(shared);
            let ringer = shared.clone();
            let ringer = loom::thread::spawn(move || {
                // SAFETY: the other thread reads it when it was rung for. Loom looks.
                ringer.result.with_mut(|result| unsafe { *result = 7 });
                ringer.work.store(true, Ordering::Relaxed);
                ring(&ringer.bell);
            });
            wait(&shared);
            ringer.join().unwrap();
        });
    }

    /// Would never end if a ring could be lost between the look and the sleep.
    fn look_and_sleep(shared: &Shared) {
        while !shared.work.load(Ordering::Relaxed) {
            shared.bell.sleep();
            shared.bell.take();
        }
    }

    fn see_result(shared: &Shared) {
        // SAFETY: it was rung for, after it was written.
        assert_eq!(shared.result.with(|result| unsafe { *result }), 7);
    }

    #[test]
    fn loom_work_that_was_rung_for_is_never_slept_over() {
        race(|_| (), Bell::ring, look_and_sleep);
    }

    #[test]
    fn loom_a_call_is_not_missed_while_an_earlier_ring_is_taken() {
        race(Bell::ring, Bell::call, look_and_sleep);
    }

    #[test]
    fn loom_who_takes_a_bell_that_was_rung_sees_what_was_done_before() {
        race(
            |_| (),
            Bell::ring,
            |shared| {
                while !shared.bell.take() {
                    loom::thread::yield_now();
                }
                see_result(shared);
            },
        );
    }

    #[test]
    fn loom_who_was_woken_sees_what_was_done_before() {
        race(
            |_| (),
            Bell::ring,
            |shared| {
                shared.bell.sleep();
                see_result(shared);
            },
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::Linux;
    use std::sync::Arc;

    #[test]
    fn a_sleeper_wakes_when_rung_and_a_rung_bell_does_not_let_it_sleep() {
        let bell = Arc::new(Bell::<Linux>::new());
        bell.ring();
        bell.sleep();
        assert!(bell.take() && !bell.take());
        let sleeper = {
            let bell = bell.clone();
            std::thread::spawn(move || bell.sleep())
        };
        std::thread::sleep(std::time::Duration::from_millis(30));
        bell.ring();
        sleeper.join().unwrap();
    }
}
