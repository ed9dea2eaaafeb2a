//! The janitor's thread: whether there is one, how it is woken, and how it ends. Its work is `Heap::run_janitor`.

use crate::base::place::Places;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::os::{Bell, Os};
use core::mem::offset_of;
use core::sync::atomic::fence;

/// No handles of threads.
const UNTOLD: usize = 0;
const TAKEN: usize = 1;
/// How long the thread waits, in nanoseconds, until its maker has noted it.
const UNTOLD_WAIT: u64 = 100_000;
/// As many of these waits, half a second, end in the hope that nothing is under way.
const PAUSES: u32 = 5000;

/// The thread that does a tick.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ticker {
    /// A thread of the program, in a slow path.
    Program,
    /// The janitor's thread, which shares the program's descriptors.
    Janitor,
    /// The janitor's thread, with descriptors of its own: it may open files, and runs nothing of the
    /// program's.
    Aside,
}

/// The state of the thread.
pub struct Thread<O: Os> {
    bell: Bell<O>,
    /// The number of the last thread; 1 before the first, so that one that nobody claimed goes on too.
    number: AtomicU32,
    /// The number of the last thread that must end: it says nothing about the next.
    stop: AtomicU32,
    /// The word that it sleeps on between ticks: another number when it is to look up before. Also counted on from
    /// outside the process, so that a number may be lost, but never a change.
    calls: AtomicU32,
    running: AtomicBool,
    /// The thread may be in the middle of calls that it began when they were allowed.
    at_work: AtomicBool,
    /// There will be no thread any more in this process.
    retired: AtomicBool,
    /// `UNTOLD` until its maker knows it, `TAKEN` where somebody waits for its end or nobody has to.
    handle: AtomicUsize,
    /// The program makes threads.
    threaded: AtomicBool,
    /// The janitor's thread where it has descriptors of its own, else 0.
    aside: AtomicUsize,
}

impl<O: Os> Thread<O> {
    /// The places of the words that it sleeps on.
    pub(super) const fn places(list: Places, at: usize) -> Places {
        list.one("janitor.calls", 4, at + offset_of!(Self, calls))
            .one("janitor.bell", 4, at + offset_of!(Self, bell))
            .one("janitor.running", 1, at + offset_of!(Self, running))
    }

    pub const fn new() -> Self {
        Thread {
            bell: Bell::new(),
            number: AtomicU32::new(1),
            stop: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            running: AtomicBool::new(false),
            at_work: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            handle: AtomicUsize::new(TAKEN),
            threaded: AtomicBool::new(false),
            aside: AtomicUsize::new(0),
        }
    }

    /// Tells the thread that something happened.
    #[inline]
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    #[inline]
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// For the thread itself, at its beginning and its end. `aside`: it has descriptors of its own.
    pub fn set_aside(&self, aside: bool) {
        self.aside.store(if aside { O::thread_id() } else { 0 }, Ordering::Relaxed);
    }

    /// Whether this is the thread, with descriptors of its own.
    pub fn is_aside(&self) -> bool {
        self.aside.load(Ordering::Relaxed) == O::thread_id()
    }

    /// For the thread itself: whether nobody has told it to end.
    pub fn goes_on(&self) -> bool {
        self.stop.load(Ordering::Acquire) != self.number.load(Ordering::Relaxed) && !self.is_retired()
    }

    /// Whether there is such a thread.
    pub fn has_aside(&self) -> bool {
        self.aside.load(Ordering::Relaxed) != 0
    }

    /// For the thread itself: waits between two ticks, unless it is `wanted`; true where something happened since the
    /// last one.
    pub fn wait(&self, os: &O, nanoseconds: u64, wanted: impl FnOnce() -> bool) -> bool {
        // Acquire pairs with the Release of the one who counts on: requests made before are seen.
        let calls = self.calls.load(Ordering::Acquire);
        if self.goes_on() && !wanted() {
            self.pause(|| os.wait_for(&self.calls, calls, nanoseconds));
        }
        self.bell.take()
    }

    /// For the thread itself: waits until something happens.
    pub(super) fn sleep(&self) {
        self.pause(|| self.bell.sleep());
    }

    /// Waits between calls, of which none is under way then.
    fn pause(&self, wait: impl FnOnce()) {
        self.at_work.store(false, Ordering::Release);
        wait();
        // Pairs with the fence in `wait_for_pause`: either the thread is seen at work, or it sees what it may not ask.
        self.at_work.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// For a thread that has just taken calls away: waits until the janitor's thread is in none that it began before. Not for
    /// ever: a handler of signals may have interrupted the holder of a lock that it waits for.
    pub fn wait_for_pause(&self, os: &O) {
        fence(Ordering::SeqCst);
        for _ in 0..PAUSES {
            if !self.at_work.load(Ordering::Acquire) || self.is_aside() {
                return;
            }
            os.sleep(UNTOLD_WAIT);
        }
    }

    /// Claims the thread's part for one that is about to be made; false if there is one.
    pub fn claim(&self) -> bool {
        let claimed = !self.is_retired() && !self.running.swap(true, Ordering::AcqRel);
        if claimed {
            self.number.fetch_add(1, Ordering::Release);
            self.handle.store(UNTOLD, Ordering::Relaxed);
            self.at_work.store(true, Ordering::SeqCst);
        }
        claimed
    }

    /// Ends `claim`: no thread could be made, or it has ended.
    pub fn unclaim(&self) {
        self.bell.take();
        self.at_work.store(false, Ordering::Release);
        self.running.store(false, Ordering::Release);
    }

    /// Notes the thread's handle, for the one that is to wait for its end.
    pub fn note(&self, handle: usize) {
        self.handle.store(handle, Ordering::Release);
    }

    /// The handle, for one caller, who is to wait for the thread's end. None where there is no thread, or the
    /// caller is it.
    pub fn take(&self, caller: usize) -> Option<usize> {
        let handle = self.handle.load(Ordering::Acquire);
        let is_taken = ![UNTOLD, TAKEN, caller].contains(&handle)
            && self.handle.compare_exchange(handle, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        is_taken.then_some(handle)
    }

    /// For the thread itself, at its end: false where somebody waits for that.
    pub fn leave(&self, os: &O) -> bool {
        while self.handle.load(Ordering::Acquire) == UNTOLD {
            os.sleep(UNTOLD_WAIT);
        }
        self.handle.swap(TAKEN, Ordering::AcqRel) != TAKEN
    }

    /// Notes that the program makes threads in this process; true the first time.
    pub fn meet_others(&self) -> bool {
        !self.threaded.swap(true, Ordering::Relaxed)
    }

    /// Whether the program makes threads.
    pub fn has_others(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// A file that is open for an instant takes a number that another thread may count on, and a child that is
    /// made meanwhile keeps it: only where the process has no other thread, or this one's are its own.
    pub fn may_open_files(&self, ticker: Ticker) -> bool {
        match ticker {
            Ticker::Program => !self.has_others(),
            Ticker::Janitor => false,
            Ticker::Aside => true,
        }
    }

    /// From now on slow paths do the thread's work: it would keep a process alive whose own threads have ended.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        // It may be one that is being made just now and has not begun.
        self.tell_to_end(self.number.load(Ordering::Acquire));
    }

    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Tells the thread to end; true if there is one. The caller has its handle, or a thread that is claimed from now on ends for
    /// the caller's reason without being told.
    pub fn stop(&self) -> bool {
        // First: if that thread ends meanwhile, and there is another one, that goes on.
        let number = self.number.load(Ordering::Acquire);
        let runs = self.running.load(Ordering::Acquire);
        if runs {
            self.tell_to_end(number);
        }
        runs
    }

    fn tell_to_end(&self, number: u32) {
        // Release pairs with the Acquire in `goes_on`. A slower caller does not take back what was said to a later thread. The
        // thread waits for one of two words.
        self.stop.fetch_max(number, Ordering::Release);
        self.call();
    }

    /// Wakes the thread, whichever word it sleeps on.
    pub fn call(&self) {
        self.calls.fetch_add(1, Ordering::Release);
        O::wake_one(&self.calls);
        self.bell.call();
    }

    /// In a new process there is no such thread, and whatever became of the parent's main thread, this one has a thread
    /// that lives.
    pub(super) fn forget(&self) {
        self.unclaim();
        self.handle.store(TAKEN, Ordering::Relaxed);
        self.aside.store(0, Ordering::Relaxed);
        self.threaded.store(false, Ordering::Relaxed);
        self.retired.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    #[test]
    fn who_tells_a_thread_to_end_that_has_ended_does_not_end_the_next() {
        let thread = Thread::<Fake>::new();
        let number_of_next = || {
            assert!(thread.claim() && thread.goes_on());
            thread.number.load(Ordering::Relaxed)
        };
        // Another thread saw the first and the second running, and is slow.
        let first = number_of_next();
        thread.unclaim();
        thread.tell_to_end(first);
        let second = number_of_next();
        thread.unclaim();
        number_of_next();
        thread.tell_to_end(second);
        assert!(thread.goes_on());
        assert!(thread.stop() && !thread.goes_on());
        thread.tell_to_end(first);
        assert!(!thread.goes_on(), "what was said to it holds");
    }

    #[test]
    fn a_thread_that_is_told_to_end_before_it_begins_does_not_begin() {
        let thread = Thread::<Fake>::new();
        assert!(!thread.stop() && thread.claim());
        thread.note(2);
        assert!(thread.take(3) == Some(2) && thread.stop());
        assert!(!thread.goes_on());
        thread.unclaim();
        assert!(thread.claim() && thread.goes_on());
        thread.retire();
        assert!(!thread.goes_on());
        // In a child nothing of that holds.
        thread.forget();
        assert!(!thread.stop() && thread.claim() && thread.goes_on());
    }
}
