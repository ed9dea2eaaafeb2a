//! When memory is short: which limits hold, what goes over them, and how the program is told.
//!
//! The limits themselves are kept by `pages`, which asks before memory comes into use.

use super::Heap;
use super::janitor::Ticker;
use crate::base::fault::Misuse;
use crate::base::locks::Relieving;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::options::{AUTO, OptionId, percent_of};
use crate::os::{MemoryGroup, Mutex, Os};
use core::sync::atomic::AtomicPtr;

/// The soft limit, of what the cgroup allows: the rest is for stacks, code and page tables.
const GROUP_PERCENT: usize = 90;
/// A heap of fewer bytes does not ask what its limits are.
const SMALL_HEAP: usize = 8 << 20;
/// Over the soft limit the heap is relieved again when it has grown by this part of the limit, or of what it holds.
const RELIEF_STEP: usize = 64;
/// Where a relief brought the heap no further down than the limit, the next waits for twice the growth, up to so many
/// steps; but not where fewer than these are left of what the cgroup allows.
const MOST_STEPS: u32 = 8;
const STEPS_OF_ROOM: usize = 4;

/// What a cgroup leaves to the heap: its limit less what others in the group use. Others can be page cache that goes
/// when it must: at least half is ours to use.
fn limit_beside(others: usize, limit: usize) -> usize {
    let allowed = limit / 100 * GROUP_PERCENT;
    allowed.saturating_sub(others).max(allowed / 2)
}

/// What is remembered about limits and the program's function.
pub struct Pressure<O: Os> {
    /// Held by the thread that relieves the heap. Who grew it meanwhile waits: with many more threads than CPUs
    /// a heap grows faster than one thread among them gives back, and many at it are in each other's way.
    pub(super) relieving: Mutex<Relieving, O>,
    /// The footprint at which the next step of growth ends, and that at which this one began.
    relieve_at: AtomicU64,
    relieved: AtomicU64,
    /// Steps until the heap is relieved again, and how many it was let go last time.
    steps_left: AtomicU32,
    steps: AtomicU32,
    /// What nobody had written of what the heap holds when limits were read, and whether relief was put off for that.
    untouched: AtomicUsize,
    put_off: AtomicBool,
    limits_known: AtomicBool,
    /// The cgroup's limit and what others hold of it, when it was last read; 0: there is none.
    group_limit: AtomicUsize,
    others: AtomicUsize,
    callback: AtomicPtr<()>,
    /// The soft limit was passed, and the program has not been told yet.
    callback_due: AtomicBool,
    /// A thread is in the program's function.
    calling_back: AtomicBool,
}

impl<O: Os> Pressure<O> {
    pub const fn new() -> Self {
        Pressure {
            relieving: Mutex::new(Relieving),
            relieve_at: AtomicU64::new(0),
            relieved: AtomicU64::new(0),
            steps_left: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            untouched: AtomicUsize::new(0),
            put_off: AtomicBool::new(false),
            limits_known: AtomicBool::new(false),
            group_limit: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            callback: AtomicPtr::new(core::ptr::null_mut()),
            callback_due: AtomicBool::new(false),
            calling_back: AtomicBool::new(false),
        }
    }

    /// In a forked child: no other thread is in the program's function.
    pub fn forget_thread(&self) {
        self.calling_back.store(false, Ordering::Relaxed);
    }
}

impl<O: Os> Heap<O> {
    /// Reads the cgroup and sets the limits that follow from it and from the options.
    #[inline(never)]
    pub(super) fn read_limits(&self) {
        self.learn_group();
        // Somebody may have written meanwhile what relief was put off for.
        if self.pressure.put_off.swap(false, Ordering::Relaxed) {
            self.pressure.relieve_at.store(0, Ordering::Relaxed);
        }
        if self.is_over() {
            self.relieve_if_grown();
        }
    }

    fn is_over(&self) -> bool {
        self.pages.limits.soft().is_some_and(|soft| self.pages.footprint() > soft)
    }

    /// Reads what the cgroup allows. What it could give up counts as free, but to ask for that is dearer: only
    /// where the heap would be over its limit without. So is what the heap holds and nobody has written.
    fn learn_group(&self) {
        let Ok(group) = self.os.memory_group(false) else {
            return self.set_limits(self.known_group());
        };
        self.set_limits(group);
        if self.is_over() {
            let untouched = self.os.own_memory().map_or(0, |own| self.pages.footprint().saturating_sub(own));
            self.pressure.untouched.store(untouched, Ordering::Relaxed);
            if group.is_some()
                && let Ok(group) = self.os.memory_group(true)
            {
                self.set_limits(group);
            }
        }
    }

    /// The cgroup as it was when it could be read.
    fn known_group(&self) -> Option<MemoryGroup> {
        let (limit, others) =
            (self.pressure.group_limit.load(Ordering::Relaxed), self.pressure.others.load(Ordering::Relaxed));
        (limit > 0).then(|| MemoryGroup { limit, in_use: others + self.own_footprint() })
    }

    /// What this heap has of what the cgroup counts: blocks that nobody wrote are not in it.
    fn own_footprint(&self) -> usize {
        let footprint = self.pages.footprint();
        footprint - self.pressure.untouched.load(Ordering::Relaxed).min(footprint)
    }

    /// Learns all that depends on asking the system, before a filter of system calls stands in the way.
    pub fn learn_all(&self) {
        if self.is_started() {
            self.inside(|| self.learn_now());
        }
    }

    fn learn_now(&self) {
        self.os.learn();
        self.settle_bound();
        self.learn_for_samples();
        if !self.pressure.limits_known.swap(true, Ordering::Relaxed) {
            self.learn_group();
        }
    }

    /// When the library is loaded: where the option says so, what may be needed is asked now, for the last time.
    pub fn after_load(&self) {
        if self.is_started() {
            self.inside(|| self.apply_system_calls());
        }
    }

    pub(super) fn apply_system_calls(&self) {
        if self.options.get(OptionId::system_calls) == 1 {
            self.learn_now();
            self.os.keep_to_list();
        }
    }

    /// Reads the limits once when the heap is no longer small, without waiting for the first tick: a process
    /// can fill its cgroup in less time.
    #[inline]
    pub(super) fn learn_limits(&self) {
        if self.pages.mapped_bytes() >= SMALL_HEAP
            && !self.pressure.limits_known.load(Ordering::Relaxed)
            && !self.pressure.limits_known.swap(true, Ordering::Relaxed)
        {
            self.read_limits();
        }
    }

    /// The same before the process has a second thread, in whose way an open file could be.
    pub(super) fn learn_limits_alone(&self) {
        if !self.pressure.limits_known.swap(true, Ordering::Relaxed) {
            self.read_limits();
        }
    }

    pub(super) fn set_limits(&self, group: Option<MemoryGroup>) {
        // A share is one of what this process may use.
        let bytes_of = |amount: u64| match percent_of(amount) {
            Some(percent) => {
                let memory = group.map_or_else(|| self.os.memory_bytes(), |group| group.limit);
                memory / 100 * percent as usize
            }
            None => amount as usize,
        };
        let limit_by = |id: OptionId, auto: Option<usize>| match self.options.get(id) {
            AUTO => auto,
            amount => Some(bytes_of(amount)).filter(|limit| *limit > 0),
        };
        let others = group.map_or(0, |group| group.in_use.saturating_sub(self.own_footprint()));
        self.pressure.group_limit.store(group.map_or(0, |group| group.limit), Ordering::Relaxed);
        self.pressure.others.store(others, Ordering::Relaxed);
        let auto = group.map(|group| limit_beside(others, group.limit));
        self.pages.limits.set(limit_by(OptionId::memory_limit, auto), limit_by(OptionId::hard_limit, None));
    }

    /// Relieves the heap where it has grown by a step since the last time, or waits for who does. Over the limit
    /// with nothing left to give, each slow path would otherwise try again for nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn relieve_if_grown(&self) {
        if !self.is_relief_due() {
            return self.pages.limits.forget_passed();
        }
        let held = self.pressure.relieving.lock();
        // What passes the limit from here on is seen anew, and its thread waits for this one.
        self.pages.limits.forget_passed();
        if self.is_stopped() || !self.is_relief_due() || self.is_put_off() {
            return;
        }
        let (outcome, was_enough) = if self.lets_go() { (Ok(0), false) } else { self.relieve_by_step() };
        self.begin_step(self.pages.footprint(), None);
        if !was_enough {
            self.pressure.callback_due.store(true, Ordering::Relaxed);
        }
        drop(held);
        self.obeyed(outcome);
    }

    /// Relieves the heap; and whether what lay outside the caches brought it below its limit.
    fn relieve_by_step(&self) -> (Result<usize, Misuse>, bool) {
        // That first: where it makes room for a step of growth, the caches stay as they are.
        self.give_back_idle();
        let was_enough = !self.is_over();
        let outcome = if self.has_room_for_a_step() { Ok(0) } else { self.try_relieve() };
        let Pressure { steps, steps_left, .. } = &self.pressure;
        // Where the heap is still over its limit there is little to be had: that is tried less and less often.
        let next =
            if self.is_over() { (2 * steps.load(Ordering::Relaxed) + 1).min(MOST_STEPS - 1) } else { 0 };
        steps.store(next, Ordering::Relaxed);
        steps_left.store(next, Ordering::Relaxed);
        (outcome, was_enough)
    }

    /// Whether a step of growth is let go without relief, because the last one brought little. Never where the heap
    /// has fallen since, where by now there is more to be had, and near the end of what the cgroup allows.
    fn lets_go(&self) -> bool {
        let Pressure { steps, steps_left: left, relieve_at, .. } = &self.pressure;
        let (footprint, steps_left) = (self.pages.footprint(), left.load(Ordering::Relaxed));
        let step = self.relief_step(footprint);
        let has_grown = footprint as u64 >= relieve_at.load(Ordering::Relaxed);
        let is_little = self.pages.dirty_free_bytes() / (steps.load(Ordering::Relaxed) as usize + 1) <= step;
        let room = self.known_group().map_or(usize::MAX, |group| group.limit.saturating_sub(group.in_use));
        let lets_go = steps_left > 0 && has_grown && is_little && room / STEPS_OF_ROOM >= step;
        left.store(if lets_go { steps_left - 1 } else { 0 }, Ordering::Relaxed);
        lets_go
    }

    fn begin_step(&self, from: usize, length: Option<usize>) {
        let length = length.unwrap_or_else(|| self.relief_step(from));
        self.pressure.relieved.store(from as u64, Ordering::Relaxed);
        self.pressure.relieve_at.store((from + length) as u64, Ordering::Relaxed);
    }

    /// Whether so much of what the heap holds was never written that less than the limit is in memory; then relief
    /// waits until the heap has grown by half of what is missing, or the limits are read again. What was not written
    /// then already does not count: a new block is about to be.
    fn is_put_off(&self) -> bool {
        let may_open = self.is_aside() || self.may_open_files(Ticker::Program);
        let in_memory = if may_open { self.os.own_memory() } else { None };
        let (Some(soft), Some(in_memory)) = (self.pages.limits.soft(), in_memory) else {
            return false;
        };
        let footprint = self.pages.footprint();
        let untouched =
            self.pressure.untouched.load(Ordering::Relaxed).min(footprint.saturating_sub(in_memory));
        self.pressure.untouched.store(untouched, Ordering::Relaxed);
        let missing = soft.saturating_sub(footprint - untouched);
        if missing < self.relief_step(footprint - untouched) {
            return false;
        }
        self.pressure.put_off.store(true, Ordering::Relaxed);
        self.begin_step(footprint, Some(missing / 2));
        true
    }

    /// Whether the heap has grown by a step since the last one began, or fallen by as much.
    fn is_relief_due(&self) -> bool {
        let (at, from, footprint) = (
            self.pressure.relieve_at.load(Ordering::Relaxed) as usize,
            self.pressure.relieved.load(Ordering::Relaxed) as usize,
            self.pages.footprint(),
        );
        footprint >= at || footprint + self.relief_step(footprint) <= from
    }

    /// A part of the limit; of what the heap holds where that is more: a heap far over its limit would
    /// otherwise do little else.
    fn relief_step(&self, footprint: usize) -> usize {
        self.pages.limits.soft().unwrap_or(0).max(footprint) / RELIEF_STEP
    }

    /// Brings everything back that can come back, now; returns the bytes that went to the system.
    pub(super) fn relieve(&self) -> usize {
        self.obeyed(self.try_relieve())
    }

    /// The same for one who has a lock to leave before the process ends.
    #[inline(never)]
    fn try_relieve(&self) -> Result<usize, Misuse> {
        self.try_reclaim()?;
        Ok(self.give_back_idle())
    }

    pub(super) fn give_back_idle(&self) -> usize {
        let given = self.tidy_spans(0) + self.pages.give_back(&self.os, 0, 0);
        self.count_given_back(given);
        given
    }

    fn has_room_for_a_step(&self) -> bool {
        let footprint = self.pages.footprint();
        footprint + self.relief_step(footprint) <= self.pages.limits.soft().unwrap_or(0)
    }

    /// Calls the program's function for memory pressure, if the limit was passed and there is one. Never from
    /// inside a slow path: the function is free to use the heap. One call at a time: a function that
    /// allocates would call itself for ever. What becomes due meanwhile waits for the slow path after it.
    #[inline]
    pub(super) fn call_back_if_due(&self) {
        let Pressure { callback_due: due, calling_back: calling, .. } = &self.pressure;
        if !due.load(Ordering::Relaxed) || calling.swap(true, Ordering::Acquire) {
            return;
        }
        if due.swap(false, Ordering::Relaxed) {
            self.call_back();
        }
        calling.store(false, Ordering::Release);
    }

    #[cold]
    fn call_back(&self) {
        let callback = self.pressure.callback.load(Ordering::Acquire);
        if !callback.is_null() {
            // SAFETY: `on_pressure` is the only place that stores here, and stores such functions.
            let callback: extern "C" fn(usize, usize) = unsafe { core::mem::transmute(callback) };
            let footprint = self.inside(|| self.pages.footprint()).unwrap_or(0);
            callback(footprint, self.pages.limits.soft().unwrap_or(0));
        }
    }

    /// Sets the function that is called when the soft limit was passed, with the heap's bytes in memory and
    /// the limit; by the janitor or by the thread that allocates, with no lock held.
    pub fn on_pressure(&self, callback: Option<extern "C" fn(usize, usize)>) {
        let address = callback.map_or(core::ptr::null_mut(), |callback| callback as *mut ());
        self.pressure.callback.store(address, Ordering::Release);
    }
}
