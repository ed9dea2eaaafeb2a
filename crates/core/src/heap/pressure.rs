//! When memory is short: which limits hold, what goes over them, and how the program is told.
//!
//! The limits themselves are kept by `pages`, which asks before memory comes into use.

use super::Heap;
use crate::base::fault::Misuse;
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::options::{AUTO, OptionId, percent_of};
use crate::os::{MemoryGroup, Mutex, Os};
use core::sync::atomic::AtomicPtr;

/// The soft limit, of what the cgroup allows: the rest is for stacks, code and page tables.
const GROUP_PERCENT: usize = 90;
/// A heap of fewer bytes does not ask what its limits are.
const SMALL_HEAP: usize = 8 << 20;
/// Over the soft limit the heap is relieved again when it has grown by this part of the limit, or of what it holds.
const RELIEF_STEP: usize = 64;

/// What is remembered about limits and the program's function.
pub struct Pressure<O: Os> {
    /// Held by the thread that relieves the heap. Who grew it meanwhile waits: with many more threads than CPUs
    /// a heap grows faster than one thread among them gives back, and many at it are in each other's way.
    pub(super) relieving: Mutex<(), O>,
    /// The footprint at which the heap relieves itself again.
    relieve_at: AtomicU64,
    limits_known: AtomicBool,
    callback: AtomicPtr<()>,
    /// The soft limit was passed, and the program has not been told yet.
    callback_due: AtomicBool,
    /// A thread is in the program's function.
    calling_back: AtomicBool,
}

impl<O: Os> Pressure<O> {
    pub const fn new() -> Self {
        Pressure {
            relieving: Mutex::new(()),
            relieve_at: AtomicU64::new(0),
            limits_known: AtomicBool::new(false),
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
        self.set_limits(self.os.memory_group());
        if self.pages.limits.soft().is_some_and(|soft| self.pages.footprint() > soft) {
            self.relieve_if_grown();
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
        let memory = group.map_or(self.os.memory_bytes(), |group| group.limit);
        let bytes_of = |amount: u64| match percent_of(amount) {
            Some(percent) => memory / 100 * percent as usize,
            None => amount as usize,
        };
        let limit_by = |id: OptionId, auto: Option<usize>| match self.options.get(id) {
            AUTO => auto,
            amount => Some(bytes_of(amount)).filter(|limit| *limit > 0),
        };
        let soft = limit_by(OptionId::memory_limit, group.map(|group| self.limit_of(group)));
        self.pages.limits.set(soft, limit_by(OptionId::hard_limit, None));
    }

    /// What the cgroup leaves to the heap: its limit less what others in the group use.
    fn limit_of(&self, group: MemoryGroup) -> usize {
        let others = group.in_use.saturating_sub(self.pages.footprint());
        let allowed = group.limit / 100 * GROUP_PERCENT;
        // Others can be page cache that goes when it must: at least half is ours to use.
        allowed.saturating_sub(others).max(allowed / 2)
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
        if self.is_stopped() || !self.is_relief_due() {
            return;
        }
        // What lies outside the caches first: where that makes room for a step of growth, they stay as they are.
        self.give_back_idle();
        let outcome = if self.has_room_for_a_step() { Ok(0) } else { self.try_relieve() };
        let footprint = self.pages.footprint();
        self.pressure.relieve_at.store((footprint + self.relief_step(footprint)) as u64, Ordering::Relaxed);
        self.pressure.callback_due.store(true, Ordering::Relaxed);
        drop(held);
        self.obeyed(outcome);
    }

    /// Whether the heap has grown by a step since the last relief, or fallen by two.
    fn is_relief_due(&self) -> bool {
        let (at, footprint) =
            (self.pressure.relieve_at.load(Ordering::Relaxed) as usize, self.pages.footprint());
        footprint >= at || footprint + 2 * self.relief_step(footprint) <= at
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

    fn give_back_idle(&self) -> usize {
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
