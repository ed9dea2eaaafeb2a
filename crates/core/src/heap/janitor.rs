//! The janitor: what happens to memory that nobody uses. docs/design/memory-comes-back.md tells the whole.
//!
//! `run_janitor` is the life of the maintenance thread; without one, slow paths call `tick_if_due`.

use super::Heap;
use super::found::Found;
use super::patience::{Patience, Seen};
use crate::base::fault::Misuse;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::cache::Stillness;
use crate::class::SizeClass;
use crate::options::OptionId;
use crate::os::{Bell, Os};

/// Ticks in one `release_delay`.
const TICKS_PER_DELAY: u32 = 4;
/// Limits and memory pressure are read from files, a dozen or more in a deep hierarchy of groups: not at each
/// tick.
const TICKS_PER_LOOK_OUTSIDE: u32 = 2;
/// A cache that nobody used for so many ticks is emptied: half a delay, since to stop it interrupts other
/// CPUs. A class in a cache that is in use waits as long where the heap holds too much, else a whole delay.
const STILL_TICKS: u32 = 2;
/// Idle pages of spans beyond `retain` wait so long.
const EXCESS_TICKS: u32 = 1;
/// After so many ticks without any event everything that can go has gone.
const QUIET_TICKS: u32 = 2 * TICKS_PER_DELAY + STILL_TICKS;
/// A block is warm, and worth a huge page, when it has been full for so many ticks.
const WARM_TICKS: u32 = 4 * TICKS_PER_DELAY;
/// Huge pages are made a few at a time: each stalls whoever faults in this process meanwhile.
const COLLAPSES_PER_TICK: u32 = 2;
/// After it made some it waits for so many times as long as that took: a thousandth of a CPU at most.
const TIMES_UNTIL_NEXT_COLLAPSE: u64 = 1000;
/// Slow paths look at the clock every so many events.
const EVENTS_PER_LOOK: u32 = 64;

/// No handles of threads.
const UNTOLD: usize = 0;
const TAKEN: usize = 1;
/// How long the thread waits, in nanoseconds, until its maker has noted it.
const UNTOLD_WAIT: u64 = 100_000;

/// Who does a tick.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticker {
    /// A thread of the program, in a slow path.
    Program,
    /// The janitor's thread, which shares the program's descriptors.
    Janitor,
    /// The janitor's thread, with descriptors of its own: it may open files, and runs nothing of the
    /// program's.
    Aside,
}

/// What the janitor remembers, and how it is called.
pub struct Janitor<O: Os> {
    bell: Bell<O>,
    /// Not zero: the thread must end. A word of its own, to sleep on between ticks.
    stop: AtomicU32,
    pub(super) running: AtomicBool,
    /// There will be no thread any more in this process.
    retired: AtomicBool,
    /// The thread's handle: `UNTOLD` until its maker knows it, `TAKEN` where somebody waits for its end or
    /// nobody has to.
    thread: AtomicUsize,
    /// The program makes threads.
    threaded: AtomicBool,
    /// The janitor's thread where it has descriptors of its own, else 0.
    aside: AtomicUsize,
    pub(super) found: Found,
    events: AtomicU32,
    next_tick: AtomicU64,
    /// One tick at a time.
    ticking: AtomicBool,
    quiet_ticks: AtomicU32,
    patience: Patience,
    pub(super) ticks: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) huge_stall: AtomicU64,
    next_collapse: AtomicU64,
}

impl<O: Os> Janitor<O> {
    pub const fn new() -> Self {
        Janitor {
            bell: Bell::new(),
            stop: AtomicU32::new(0),
            running: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            thread: AtomicUsize::new(TAKEN),
            threaded: AtomicBool::new(false),
            aside: AtomicUsize::new(0),
            found: Found::new(),
            events: AtomicU32::new(0),
            next_tick: AtomicU64::new(0),
            ticking: AtomicBool::new(false),
            quiet_ticks: AtomicU32::new(0),
            patience: Patience::new(),
            ticks: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            huge_stall: AtomicU64::new(0),
            next_collapse: AtomicU64::new(0),
        }
    }
}

impl<O: Os> Heap<O> {
    /// What every slow path does when its work is done, with no lock held.
    pub(super) fn after_slow_path(&self) {
        let janitor = &self.janitor;
        janitor.bell.ring();
        // With a thread for it nobody counts: a count that all CPUs write would cost more than what it is
        // for.
        if !janitor.running.load(Ordering::Relaxed)
            && janitor.events.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVENTS_PER_LOOK)
        {
            self.tick_if_due();
        }
        if self.pages.limits.is_passed() {
            self.relieve_if_grown();
        }
        if self.pages.limits.is_above_watermark() {
            self.shed();
        }
    }

    fn tick_nanoseconds(&self) -> u64 {
        self.options.get(OptionId::release_delay) / TICKS_PER_DELAY as u64
    }

    /// Does a tick if the last one was long enough ago: the janitor's work where it has no thread.
    fn tick_if_due(&self) {
        let (now, next) = (self.os.now(), &self.janitor.next_tick);
        let due = next.load(Ordering::Relaxed);
        let after = now.saturating_add(self.tick_nanoseconds());
        if now >= due && next.compare_exchange(due, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.tick_by(true, Ticker::Program);
        }
    }

    /// The janitor's thread: returns when `stop_janitor` was called, or the option is off. It blocks no signal
    /// itself. `aside`: it has descriptors of its own, so files of ours may be open in it and the program's
    /// functions would find theirs missing.
    pub fn run_janitor(&self, aside: bool) {
        let (janitor, ticker) = (&self.janitor, if aside { Ticker::Aside } else { Ticker::Janitor });
        janitor.aside.store(if aside { O::thread_id() } else { 0 }, Ordering::Relaxed);
        while self.janitor_goes_on() {
            self.os.wait_for(&janitor.stop, 0, self.tick_nanoseconds());
            let (rung, told) = (janitor.bell.take(), janitor.found.is_told());
            self.tick_by(rung, ticker);
            if told {
                // No thread of the program came by.
                self.stop_if_told();
            }
            if !aside {
                self.call_back_if_due();
            }
            let quiet = janitor.quiet_ticks.load(Ordering::Relaxed) > QUIET_TICKS;
            if quiet && self.janitor_goes_on() && !janitor.found.is_told() {
                janitor.bell.sleep();
                janitor.quiet_ticks.store(0, Ordering::Relaxed);
            }
        }
        janitor.aside.store(0, Ordering::Relaxed);
    }

    /// Whether this is the janitor's thread, with descriptors of its own.
    pub(super) fn is_aside(&self) -> bool {
        self.janitor.aside.load(Ordering::Relaxed) == O::thread_id()
    }

    fn janitor_goes_on(&self) -> bool {
        self.janitor.stop.load(Ordering::Acquire) == 0
            && !self.janitor.retired.load(Ordering::Acquire)
            && self.options.is_on(OptionId::janitor)
    }

    /// A file that is open for an instant takes a number that another thread may count on, and a child that is
    /// made meanwhile keeps it: only where the process has no other thread, or this one's are its own.
    pub(super) fn may_open_files(&self, ticker: Ticker) -> bool {
        match ticker {
            Ticker::Program => !self.is_threaded(),
            Ticker::Janitor => false,
            Ticker::Aside => true,
        }
    }

    /// What a tick came upon. The janitor aside leaves the end of the process to a thread of the program, which
    /// has the descriptors and the stack that the program's handler of SIGABRT expects, if one comes by before
    /// the next tick.
    fn obeyed_by<T: Default>(&self, ticker: Ticker, outcome: Result<T, Misuse>) -> T {
        match outcome {
            Err(misuse) if ticker == Ticker::Aside => {
                self.janitor.found.tell(misuse);
                T::default()
            }
            outcome => self.obeyed(outcome),
        }
    }

    /// Ends the process where the janitor found that the program misused the heap.
    #[inline]
    pub(super) fn stop_if_told(&self) {
        if let Some(misuse) = self.janitor.found.take() {
            self.stop(misuse);
        }
    }

    /// Claims the janitor's part for a thread that is about to be made; false if there is one, or it is
    /// switched off.
    pub fn claim_janitor(&self) -> bool {
        let claimed = self.options.is_on(OptionId::janitor)
            && !self.janitor.retired.load(Ordering::Acquire)
            && !self.janitor.running.swap(true, Ordering::AcqRel);
        if claimed {
            self.janitor.thread.store(UNTOLD, Ordering::Relaxed);
        }
        claimed
    }

    /// Notes the handle of the janitor's thread, for whoever is to wait for its end.
    pub fn note_janitor(&self, thread: usize) {
        self.janitor.thread.store(thread, Ordering::Release);
    }

    /// The handle, for one caller, who is to wait for the thread's end. None where there is no thread, or the
    /// caller is it.
    pub fn take_janitor(&self, caller: usize) -> Option<usize> {
        let thread = self.janitor.thread.load(Ordering::Acquire);
        let taken = ![UNTOLD, TAKEN, caller].contains(&thread)
            && self
                .janitor
                .thread
                .compare_exchange(thread, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        taken.then_some(thread)
    }

    /// For the thread itself, at its end: false where somebody waits for that.
    pub fn leave_janitor(&self) -> bool {
        while self.janitor.thread.load(Ordering::Acquire) == UNTOLD {
            self.os.wait_for(&self.emergency.never, 0, UNTOLD_WAIT);
        }
        self.janitor.thread.swap(TAKEN, Ordering::AcqRel) != TAKEN
    }

    /// Notes that the program is about to make threads in this process; true the first time.
    pub fn meet_threads(&self) -> bool {
        if self.is_threaded() {
            return false;
        }
        if self.is_started() {
            self.inside(|| {
                self.settle_bound();
                self.learn_for_samples();
                self.learn_limits_alone();
            });
        }
        !self.janitor.threaded.swap(true, Ordering::Relaxed)
    }

    pub fn is_threaded(&self) -> bool {
        self.janitor.threaded.load(Ordering::Relaxed)
    }

    /// Ends `claim_janitor`: no thread could be made, or it has ended.
    pub fn unclaim_janitor(&self) {
        self.janitor.stop.store(0, Ordering::Release);
        self.janitor.bell.take();
        self.janitor.running.store(false, Ordering::Release);
    }

    /// In a new process: there is no thread and no tick under way, and whatever became of the parent's main
    /// thread, this one has a thread that lives.
    pub(super) fn forget_janitor(&self) {
        self.unclaim_janitor();
        self.janitor.thread.store(TAKEN, Ordering::Relaxed);
        self.janitor.aside.store(0, Ordering::Relaxed);
        self.janitor.threaded.store(false, Ordering::Relaxed);
        self.janitor.retired.store(false, Ordering::Relaxed);
        self.janitor.ticking.store(false, Ordering::Relaxed);
        self.janitor.found.forget_teller();
        self.growth.forget_thread();
        self.pressure.forget_thread();
    }

    /// From now on slow paths do the janitor's work: a thread would keep a process alive whose own threads
    /// have ended.
    pub fn retire_janitor(&self) {
        self.janitor.retired.store(true, Ordering::Release);
        // It may be one that is being made just now and has not begun.
        self.tell_janitor_to_end();
    }

    pub fn janitor_is_retired(&self) -> bool {
        self.janitor.retired.load(Ordering::Acquire)
    }

    /// Tells the janitor's thread to end; true if there is one.
    pub fn stop_janitor(&self) -> bool {
        let runs = self.janitor.running.load(Ordering::Acquire);
        if runs {
            self.tell_janitor_to_end();
        }
        runs
    }

    fn tell_janitor_to_end(&self) {
        // Release pairs with the Acquire in `run_janitor`. The thread waits for one of two words.
        self.janitor.stop.store(1, Ordering::Release);
        O::wake_one(&self.janitor.stop);
        self.janitor.bell.call();
    }

    /// One tick, as slow paths do it. `rung`: something happened since the last one.
    #[cfg(any(test, feature = "fake-os"))]
    pub fn tick(&self, rung: bool) {
        self.tick_by(rung, Ticker::Program);
    }

    pub(super) fn tick_by(&self, rung: bool, ticker: Ticker) {
        if !self.is_started() || self.janitor.ticking.swap(true, Ordering::Acquire) {
            return;
        }
        let now = self.pages.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.janitor.ticks.fetch_add(1, Ordering::Relaxed);
        let holding = self.holding_at_tick(rung);
        let plenty = holding.is_plenty();
        let factor = if plenty { 1 } else { self.janitor.patience.factor() };
        let waits = rung && !plenty;
        // What nobody used for a moment is young; in a program that stopped, or holds too much, nothing is.
        let free_since = |ticks: u32| now.wrapping_sub(if waits { ticks } else { TICKS_PER_DELAY * factor });
        let class = if plenty { STILL_TICKS } else { TICKS_PER_DELAY * factor };
        let still = Stillness { slab: STILL_TICKS * factor, class };
        let look = self.obeyed_by(ticker, self.cache.drain_still(self.below(), still, free_since));
        self.fences_refused.fetch_add(u64::from(look.refused), Ordering::Relaxed);
        self.obeyed_by(ticker, self.keep_bound_at_tick());
        self.obeyed_by(ticker, self.large.audit(&self.pages));
        for class in SizeClass::all() {
            self.obeyed_by(ticker, self.central.trim(&self.pages, class, free_since(1)));
            self.central.forget_array(&self.os, class, STILL_TICKS * factor);
        }
        let given = self.tidy_spans(self.ticks_in_spans(plenty && holding.free > holding.retained, factor))
            + self.pages.give_back(&self.os, self.kept_bytes(holding, waits, factor), 0)
            + self.pages.give_back(&self.os, 0, TICKS_PER_DELAY * factor);
        self.janitor.given_back.fetch_add(given as u64, Ordering::Relaxed);
        self.learn(now, rung, given + self.growth.take_shed());
        self.watch_growth(holding.live);
        self.make_huge_pages();
        if now.is_multiple_of(TICKS_PER_LOOK_OUTSIDE) && self.may_open_files(ticker) {
            self.read_limits();
            if self.os.is_under_pressure() {
                self.relieve();
            }
        }
        match rung || look.moved {
            true => self.janitor.quiet_ticks.store(0, Ordering::Relaxed),
            false => _ = self.janitor.quiet_ticks.fetch_add(1, Ordering::Relaxed),
        }
        self.janitor.ticking.store(false, Ordering::Release);
    }

    /// Gives back the idle pages of all spans that nobody touched for `ticks`. Returns the bytes.
    #[inline(never)]
    pub(super) fn tidy_spans(&self, ticks: u32) -> usize {
        let tidy = |id| self.central.tidy_span(&self.os, &self.pages, id, ticks);
        self.pages.untidy_in(0..self.pages.span_count()).map(tidy).sum()
    }

    /// For how long a span must stand still before its idle pages go: less where a program holds too much.
    fn ticks_in_spans(&self, too_much: bool, factor: u32) -> u32 {
        if too_much { EXCESS_TICKS } else { TICKS_PER_DELAY * factor }
    }

    /// Whether memory waits longer than `release_delay` because the program keeps wanting it again.
    pub fn is_patient(&self) -> bool {
        self.janitor.patience.factor() > 1
    }

    fn learn(&self, now: u32, rung: bool, given: usize) {
        let patience = &self.janitor.patience;
        let came_back = self.pages.came_back(patience.too_soon_from(now));
        let (work, given) = (self.cache.work(), given as u64);
        patience.note(Seen { now, rung, work, given, came_back, ticks_per_delay: TICKS_PER_DELAY });
    }

    #[inline(never)]
    fn make_huge_pages(&self) {
        if !self.options.is_on(OptionId::huge_pages) || !self.pages.may_have_huge_pages() {
            return;
        }
        let before = self.os.now();
        if before < self.janitor.next_collapse.load(Ordering::Relaxed) {
            return;
        }
        if self.pages.collapse_dense(&self.os, COLLAPSES_PER_TICK, WARM_TICKS) > 0 {
            let took = self.os.now() - before;
            self.janitor.huge_stall.fetch_add(took, Ordering::Relaxed);
            self.janitor.next_collapse.store(before + took * TIMES_UNTIL_NEXT_COLLAPSE, Ordering::Relaxed);
        }
    }

    pub(super) fn count_given_back(&self, bytes: usize) {
        self.janitor.given_back.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
