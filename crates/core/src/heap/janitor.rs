//! The janitor's thread, as its maker and the thread that ends it see it, and its life.

use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;
use crate::upkeep::{self, Ticker};

impl<O: Os> Heap<O> {
    /// Claims the janitor's part for a thread that is about to be made; false if there is one, or it is
    /// switched off.
    pub fn claim_janitor(&self) -> bool {
        self.wants_janitor() && self.upkeep.thread.claim()
    }

    fn wants_janitor(&self) -> bool {
        self.options.get(OptionId::janitor) != 0
    }

    /// Whether a process of one thread is to have a janitor too.
    pub fn always_wants_janitor(&self) -> bool {
        const ALWAYS: u64 = 2;
        self.options.get(OptionId::janitor) == ALWAYS
    }

    /// Whether there is to be a janitor now.
    pub fn is_to_have_janitor(&self) -> bool {
        self.always_wants_janitor() || self.wants_janitor() && self.is_threaded()
    }

    /// Whether there is one now.
    pub fn has_janitor(&self) -> bool {
        self.upkeep.thread.is_running()
    }

    /// Ends `claim_janitor`: no thread could be made, or it has ended.
    pub fn unclaim_janitor(&self) {
        self.upkeep.thread.unclaim();
    }

    /// Notes the handle of the janitor's thread, for the thread that is to wait for its end.
    pub fn note_janitor(&self, thread: usize) {
        self.upkeep.thread.note(thread);
    }

    /// The handle, for one caller, who is to wait for the thread's end. None where there is no thread, or the
    /// caller is it.
    pub fn take_janitor(&self, caller: usize) -> Option<usize> {
        self.upkeep.thread.take(caller)
    }

    /// For the thread itself, at its end: false where somebody waits for that.
    pub fn leave_janitor(&self) -> bool {
        self.upkeep.thread.leave(&self.os)
    }

    /// From now on slow paths do the janitor's work: a thread would keep a process alive whose own threads
    /// have ended.
    pub fn retire_janitor(&self) {
        self.upkeep.thread.retire();
    }

    pub fn janitor_is_retired(&self) -> bool {
        self.upkeep.thread.is_retired()
    }

    /// For a thread that has just taken system calls away: waits until the janitor's thread is in none that it began before.
    pub fn wait_for_janitor(&self) {
        self.upkeep.thread.wait_for_pause(&self.os);
    }

    /// Tells the janitor's thread to end; true if there is one.
    pub fn stop_janitor(&self) -> bool {
        self.upkeep.thread.stop()
    }

    /// Looks whether this is a new process: for those who are about to make a thread in it, or to use what
    /// belongs to one process.
    pub fn look_at_process(&self) {
        self.process.look_for_fork(&self.os);
        self.inside(|_| ());
    }

    /// Does for its process what the library around this heap does once: one thread at a time.
    pub fn export<R>(&self, act: impl FnOnce() -> R) -> R {
        self.look_at_process();
        let _held = self.exporting.lock();
        act()
    }

    /// Notes that the program is about to make threads in this process; true the first time.
    pub fn meet_threads(&self) -> bool {
        if self.is_threaded() {
            return false;
        }
        if self.is_started() {
            self.inside(|_| {
                let below = &self.floors;
                self.upkeep.settle_bound(below);
                self.learn_for_samples();
                self.obeyed(self.upkeep.learn_limits_alone(below));
            });
        }
        self.upkeep.thread.meet_others()
    }

    pub fn is_threaded(&self) -> bool {
        self.upkeep.thread.has_others()
    }

    /// The janitor's thread: returns when `stop_janitor` was called, or the option is off. It blocks no signal
    /// itself. `aside`: it has descriptors of its own, so files of ours may be open in it and the program's
    /// functions would find theirs missing.
    pub fn run_janitor(&self, aside: bool) {
        let (thread, ticker) = (&self.upkeep.thread, if aside { Ticker::Aside } else { Ticker::Janitor });
        thread.set_aside(aside);
        let goes_on = || thread.goes_on() && self.wants_janitor();
        while goes_on() {
            self.obey_if_ordered();
            let rung = self.wait_for_tick(|| !goes_on() || aside && self.upkeep.words.are_due());
            self.speak_if_aside(aside);
            self.obey_if_ordered();
            self.look_at_probes();
            let told = self.pending_fault.is_told();
            self.tick_by(rung, ticker);
            self.speak_if_aside(aside);
            if told {
                // No thread of the program came by.
                self.abort_if_told();
            }
            if !aside {
                self.call_back_if_due();
            }
            let is_wanted = || {
                self.upkeep.words.are_due()
                    || self.upkeep.words.are_near()
                    || self.upkeep.has_ended(&self.floors)
            };
            let keeps_awake =
                || !goes_on() || self.pending_fault.is_told() || self.mailbox.is_due() || is_wanted();
            self.upkeep.sleep_if_quiet(&self.floors, keeps_awake);
        }
        thread.set_aside(false);
    }

    /// Waits until a tick is due, or something else is to be done; true where something happened meanwhile. What heaps of tenants
    /// left when they ended is closed at once, and makes no tick come earlier.
    fn wait_for_tick(&self, is_wanted: impl Fn() -> bool) -> bool {
        let thread = &self.upkeep.thread;
        let until = self.os.now().saturating_add(upkeep::nanoseconds(&self.options));
        let is_called = || is_wanted() || self.mailbox.is_due();
        let (mut rung, mut others_are_at_it) = (false, false);
        loop {
            let left = until.saturating_sub(self.os.now());
            let has_ended = || !others_are_at_it && self.upkeep.has_ended(&self.floors);
            rung |= thread.wait(&self.os, left, || left == 0 || is_called() || has_ended());
            if left == 0 || is_called() || !has_ended() || !self.is_started() {
                return rung;
            }
            others_are_at_it = !self.upkeep.close_ended(&self.floors) && self.upkeep.has_ended(&self.floors);
        }
    }

    /// Last words go into a file, which only a thread with descriptors of its own opens.
    fn speak_if_aside(&self, aside: bool) {
        if aside {
            self.speak();
        }
    }

    /// One tick, as slow paths do it. `rung`: something happened since the last one.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn tick(&self, rung: bool) {
        self.tick_by(rung, Ticker::Program);
    }

    /// The janitor aside leaves the end of the process to a thread of the program, which has the descriptors and the
    /// stack that the program's handler of SIGABRT expects, if one comes by before the next tick.
    pub(crate) fn tick_by(&self, rung: bool, ticker: Ticker) {
        if !self.is_started() {
            return;
        }
        match self.upkeep.tick(&self.floors, rung, ticker) {
            Err(misuse) if ticker == Ticker::Aside => self.pending_fault.tell(misuse),
            outcome => self.obeyed(outcome),
        }
    }

    /// Whether memory waits longer than `release_delay` because the program keeps wanting it again.
    pub fn is_patient(&self) -> bool {
        self.upkeep.is_patient()
    }
}
