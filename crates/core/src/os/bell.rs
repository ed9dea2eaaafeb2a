//! A bell: many ring it, one sleeps until it is rung. Ringing a bell that rings already is one load.

use super::Wait;
use crate::base::sync::{AtomicU32, Ordering};
use core::marker::PhantomData;

const QUIET: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// Any thread may ring; one thread takes and sleeps.
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

    /// Wakes the sleeper, or keeps it from falling asleep.
    #[inline]
    pub fn ring(&self) {
        // AcqRel pairs with `take`: who finds the bell rung sees what was done before it was rung.
        if self.state.load(Ordering::Relaxed) != RUNG && self.state.swap(RUNG, Ordering::AcqRel) == ASLEEP {
            W::wake_one(&self.state);
        }
    }

    /// True if the bell was rung since it was last taken.
    pub fn take(&self) -> bool {
        self.state.swap(QUIET, Ordering::AcqRel) == RUNG
    }

    /// Returns when the bell is rung; at once if it was rung since it was last taken.
    pub fn sleep(&self) {
        if self.state.compare_exchange(QUIET, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err() {
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
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;

    struct Yield;

    impl Wait for Yield {
        fn wait(_: &AtomicU32, _: u32) {
            loom::thread::yield_now();
        }
        fn wake_one(_: &AtomicU32) {}
        fn mark() -> u32 {
            2
        }
    }

    #[test]
    fn loom_work_that_was_rung_for_is_never_slept_over() {
        loom::model(|| {
            let bell = Arc::new(Bell::<Yield>::new());
            let work = Arc::new(AtomicBool::new(false));
            let (ringer_bell, ringer_work) = (bell.clone(), work.clone());
            let ringer = loom::thread::spawn(move || {
                ringer_work.store(true, Ordering::Relaxed);
                ringer_bell.ring();
            });
            // Would never end if the ring could be lost between the look and the sleep.
            while !work.load(Ordering::Relaxed) {
                bell.sleep();
                bell.take();
            }
            ringer.join().unwrap();
        });
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
