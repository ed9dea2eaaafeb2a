//! The janitor: what happens to memory that nobody uses. docs/design/memory-comes-back.md tells the whole.
//!
//! `run_janitor` is the life of the maintenance thread; without one, slow paths call `tick_if_due`.

use super::Heap;
use super::patience::{Patience, Seen};
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::cache::Stillness;
use crate::class::SizeClass;
use crate::options::{AUTO, OptionId, encode_percent, percent_of};
use crate::os::{Bell, MemoryGroup, Os};

/// Ticks in one `release_delay`.
const TICKS_PER_DELAY: u32 = 4;
/// Limits and memory pressure are read from files, a dozen or more in a deep hierarchy of groups: not at each
/// tick.
const TICKS_PER_LOOK_OUTSIDE: u32 = 2;
/// A cache that nobody used for so many ticks is emptied: half a delay, since to stop it interrupts other
/// CPUs. A class in a cache that is in use waits as long where the heap holds too much, else a whole delay.
const STILL_TICKS: u32 = 2;
/// Nothing waits where free memory exceeds this part of what lives, and these bytes.
const PATIENT_PART: usize = 2;
const PATIENT_BYTES: usize = 16 << 20;
/// A heap with plenty of free memory gives some back each time it grows by this part of what lives, and these
/// bytes at least.
const GROWTH_PART: usize = 8;
const LEAST_GROWTH: usize = 8 << 20;
/// So many spans and free bytes at a time, some hundred microseconds; and so many looks for such spans.
const SPANS_PER_PORTION: u32 = 64;
const BYTES_PER_PORTION: usize = 2 << 20;
const LOOKS_PER_PORTION: u32 = 8192;
/// The part where the program steers its memory by what the heap holds: what it frees has to show soon, or it
/// frees too much.
const STEERED_PART: usize = 16;
/// It steers if it asked for a release in so many ticks.
const STEERED_TICKS: u32 = 48;
/// Free memory beyond `retain` goes when nobody needed it for so many ticks, at least.
const UNNEEDED_TICKS: u32 = 2;
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
/// What may stay where that is left to us.
const AUTO_RETAIN: u64 = encode_percent(25);
/// Free memory below this may always stay for `release_delay`.
const LEAST_RETAIN: u64 = 8 << 20;
/// The soft limit, of what the cgroup allows: the rest is for stacks, code and page tables.
const GROUP_PERCENT: usize = 90;
/// A heap of fewer bytes does not ask what its limits are.
const SMALL_HEAP: usize = 8 << 20;
/// Over the soft limit the heap is tidied again when it has grown by this part of the limit.
const RELIEF_STEP: usize = 64;

/// What the janitor remembers, and how it is called.
pub struct Janitor<O: Os> {
    bell: Bell<O>,
    /// Not zero: the thread must end. A word of its own, to sleep on between ticks.
    stop: AtomicU32,
    pub(super) running: AtomicBool,
    /// A thread sheds a portion.
    shedding: AtomicBool,
    /// The span from which shedding goes on.
    shed_from: AtomicU32,
    /// Bytes that were shed since the last tick.
    shed: AtomicU64,
    /// There will be no thread any more in this process.
    retired: AtomicBool,
    events: AtomicU32,
    next_tick: AtomicU64,
    /// One tick at a time.
    ticking: AtomicBool,
    quiet_ticks: AtomicU32,
    patience: Patience,
    /// Ticks until what nobody needed meanwhile goes, and the least of it until now.
    excess_ticks: AtomicU32,
    excess: AtomicU64,
    /// By how many bytes there were more large blocks in the last tick than at its end.
    large_swing: AtomicUsize,
    /// The tick until which the program counts as steering its memory; 0 before it ever did.
    steered_until: AtomicU32,
    /// The footprint at which the heap relieves itself again.
    relieve_at: AtomicU64,
    limits_known: AtomicBool,
    /// The soft limit was passed, and the program has not been told yet.
    callback_due: AtomicBool,
    /// A thread is in the program's function.
    calling_back: AtomicBool,
    pub(super) ticks: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) huge_stall: AtomicU64,
    next_collapse: AtomicU64,
}

/// So much may be free before nothing waits any more: patience has a price in memory, and ends where that would
/// be too high.
fn patient_bytes(live: usize, steered: bool) -> usize {
    live / if steered { STEERED_PART } else { PATIENT_PART } + PATIENT_BYTES
}

impl<O: Os> Janitor<O> {
    pub const fn new() -> Self {
        Janitor {
            bell: Bell::new(),
            stop: AtomicU32::new(0),
            running: AtomicBool::new(false),
            shedding: AtomicBool::new(false),
            shed_from: AtomicU32::new(0),
            shed: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            events: AtomicU32::new(0),
            next_tick: AtomicU64::new(0),
            ticking: AtomicBool::new(false),
            quiet_ticks: AtomicU32::new(0),
            patience: Patience::new(),
            excess_ticks: AtomicU32::new(0),
            excess: AtomicU64::new(u64::MAX),
            large_swing: AtomicUsize::new(0),
            steered_until: AtomicU32::new(0),
            relieve_at: AtomicU64::new(0),
            limits_known: AtomicBool::new(false),
            callback_due: AtomicBool::new(false),
            calling_back: AtomicBool::new(false),
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
        if self.pages.limits.take_passed() {
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
            self.tick(true);
        }
    }

    /// The janitor's thread: returns when `stop_janitor` was called. It blocks no signal itself.
    pub fn run_janitor(&self) {
        let janitor = &self.janitor;
        while janitor.stop.load(Ordering::Acquire) == 0 && !janitor.retired.load(Ordering::Acquire) {
            self.os.wait_for(&janitor.stop, 0, self.tick_nanoseconds());
            let rung = janitor.bell.take();
            self.tick(rung);
            self.call_back_if_due();
            let quiet = janitor.quiet_ticks.load(Ordering::Relaxed) > QUIET_TICKS;
            if quiet && janitor.stop.load(Ordering::Acquire) == 0 {
                janitor.bell.sleep();
                janitor.quiet_ticks.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Claims the janitor's part for a thread that is about to be made; false if there is one, or it is
    /// switched off.
    pub fn claim_janitor(&self) -> bool {
        self.options.is_on(OptionId::janitor)
            && !self.janitor.retired.load(Ordering::Acquire)
            && !self.janitor.running.swap(true, Ordering::AcqRel)
    }

    /// Ends `claim_janitor`: no thread could be made, or it has ended.
    pub fn unclaim_janitor(&self) {
        self.janitor.stop.store(0, Ordering::Release);
        self.janitor.bell.take();
        self.janitor.running.store(false, Ordering::Release);
    }

    /// In a forked child: there is no thread and no tick under way.
    pub(super) fn forget_janitor(&self) {
        self.unclaim_janitor();
        self.janitor.ticking.store(false, Ordering::Relaxed);
        self.janitor.shedding.store(false, Ordering::Relaxed);
        self.janitor.calling_back.store(false, Ordering::Relaxed);
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
        self.janitor.bell.ring();
    }

    /// One tick. `rung`: something happened since the last one.
    pub fn tick(&self, rung: bool) {
        if !self.is_started() || self.janitor.ticking.swap(true, Ordering::Acquire) {
            return;
        }
        let now = self.pages.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.janitor.ticks.fetch_add(1, Ordering::Relaxed);
        let (free, live) = self.free_and_live();
        let steered = self.is_steered(now);
        let most = patient_bytes(live, steered);
        let wanted = self.wanted_by_large(rung && !steered);
        let plenty = free.saturating_sub(wanted) > most;
        let retained = self.retained_bytes(live).min(if steered { most } else { usize::MAX });
        let factor = if plenty { 1 } else { self.janitor.patience.factor() };
        let waits = rung && !plenty;
        // What nobody used for a moment is young; in a program that stopped, or holds too much, nothing is.
        let free_since = |ticks: u32| now.wrapping_sub(if waits { ticks } else { TICKS_PER_DELAY * factor });
        let class = if plenty { STILL_TICKS } else { TICKS_PER_DELAY * factor };
        let still = Stillness { slab: STILL_TICKS * factor, class };
        let look = self.obeyed(self.cache.drain_still(self.below(), still, free_since));
        self.fences_refused.fetch_add(u64::from(look.refused), Ordering::Relaxed);
        for class in SizeClass::all() {
            self.obeyed(self.central.trim(&self.pages, class, free_since(1)));
        }
        let given = self.tidy_spans(self.ticks_in_spans(plenty && free > retained, factor))
            + self.pages.give_back(&self.os, self.kept_bytes(waits, retained, factor, wanted), 0)
            + self.pages.give_back(&self.os, 0, TICKS_PER_DELAY * factor);
        self.janitor.given_back.fetch_add(given as u64, Ordering::Relaxed);
        let shed = self.janitor.shed.swap(0, Ordering::Relaxed) as usize;
        self.learn(now, rung, given + shed);
        self.watch_growth(live);
        self.make_huge_pages();
        if now.is_multiple_of(TICKS_PER_LOOK_OUTSIDE) {
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

    /// What a heap does that grows although it holds plenty: what is free goes before the next tick. Each time
    /// it has grown by a step, so that the work is small against that of the growth; and in portions, so that
    /// no caller of malloc waits for all of it.
    #[cold]
    #[inline(never)]
    fn shed(&self) {
        let shedding = &self.janitor.shedding;
        if shedding.load(Ordering::Relaxed) || shedding.swap(true, Ordering::Acquire) {
            return;
        }
        let (free, live) = self.free_and_live();
        let steered = self.is_steered(self.pages.clock.load(Ordering::Relaxed));
        let swing = self.janitor.large_swing.load(Ordering::Relaxed).max(self.pages.large_swing_now());
        let wanted = if steered { 0 } else { 2 * swing };
        let most = patient_bytes(live, steered);
        let retained = self.retained_bytes(live).min(if steered { most } else { usize::MAX });
        let plenty = free.saturating_sub(wanted) > most.max(retained);
        if !plenty || self.shed_portion(retained.max(wanted)) {
            self.janitor.shed_from.store(0, Ordering::Relaxed);
            self.watch_growth(live);
        }
        shedding.store(false, Ordering::Release);
    }

    /// Gives back the idle pages of some spans, and some of the free memory beyond `kept` bytes; true when all
    /// spans had their turn and no such memory is left, or where the system takes none.
    fn shed_portion(&self, kept: usize) -> bool {
        let (spans, from) = (self.pages.span_count(), self.janitor.shed_from.load(Ordering::Relaxed));
        let mut end = spans.min(from.saturating_add(LOOKS_PER_PORTION));
        let (mut in_spans, mut count) = (0, 0);
        for id in self.pages.untidy_in(from..end) {
            in_spans += self.central.tidy_span(&self.os, &self.pages, id, 0);
            count += 1;
            if count == SPANS_PER_PORTION {
                end = id.0 + 1;
                break;
            }
        }
        self.janitor.shed_from.store(end, Ordering::Relaxed);
        let dirty = self.pages.dirty_free_bytes();
        let given = self.pages.give_back(&self.os, kept.max(dirty.saturating_sub(BYTES_PER_PORTION)), 0);
        self.count_given_back(in_spans + given);
        self.janitor.shed.fetch_add((in_spans + given) as u64, Ordering::Relaxed);
        let is_refused = given == 0 && dirty > kept;
        is_refused || end >= spans && dirty <= kept + BYTES_PER_PORTION
    }

    fn watch_growth(&self, live: usize) {
        let step = (live / GROWTH_PART).max(LEAST_GROWTH);
        self.pages.limits.set_watermark(self.pages.footprint() + step);
    }

    /// Gives back the idle pages of all spans that nobody touched for `ticks`. Returns the bytes.
    #[inline(never)]
    pub(super) fn tidy_spans(&self, ticks: u32) -> usize {
        let tidy = |id| self.central.tidy_span(&self.os, &self.pages, id, ticks);
        self.pages.untidy_in(0..self.pages.span_count()).map(tidy).sum()
    }

    /// Free memory outside caches, and what is left of the heap without it. In bytes.
    fn free_and_live(&self) -> (usize, usize) {
        let (pages, in_spans) = (self.pages.stats(), self.central.free_in_spans());
        let in_memory = in_spans.saturating_sub(pages.released as usize);
        (pages.dirty_free as usize + in_memory, (pages.used as usize).saturating_sub(in_spans))
    }

    /// For how long a span must stand still before its idle pages go: less where a program holds too much.
    fn ticks_in_spans(&self, too_much: bool, factor: u32) -> u32 {
        if too_much { EXCESS_TICKS } else { TICKS_PER_DELAY * factor }
    }

    /// Whether memory waits longer than `release_delay` because the program keeps wanting it again.
    pub fn is_patient(&self) -> bool {
        self.janitor.patience.factor() > 1
    }

    /// Notes that the program asks for a release every now and then, because it steers what it keeps by what
    /// is held.
    pub fn note_steered(&self) {
        let until = self.pages.clock.load(Ordering::Relaxed).wrapping_add(STEERED_TICKS).max(1);
        self.janitor.steered_until.store(until, Ordering::Relaxed);
    }

    fn is_steered(&self, now: u32) -> bool {
        let until = self.janitor.steered_until.load(Ordering::Relaxed);
        until != 0 && until.wrapping_sub(now) <= STEERED_TICKS
    }

    fn learn(&self, now: u32, rung: bool, given: usize) {
        let patience = &self.janitor.patience;
        let came_back = self.pages.came_back(patience.too_soon_from(now));
        let (work, given) = (self.cache.work(), given as u64);
        patience.note(Seen { now, rung, work, given, came_back, ticks_per_delay: TICKS_PER_DELAY });
    }

    /// What large blocks may want of the memory that is free, in a program at work: by so much there were more
    /// of them in one of the last two ticks than there are now. They take whole runs from the page heap and give
    /// them back whole: what they leave is not what fragmentation left, so it may stay also where free memory
    /// is plenty.
    fn wanted_by_large(&self, at_work: bool) -> usize {
        let swing = self.pages.large_swing();
        let before = self.janitor.large_swing.swap(swing, Ordering::Relaxed);
        if at_work { 2 * swing.max(before) } else { 0 }
    }

    /// The free memory that this tick leaves: what is to be retained, and what was needed in the last ticks.
    /// How many of those grows with the patience. Where nothing `waits`, at most what is `wanted` is needed.
    fn kept_bytes(&self, waits: bool, retained: usize, factor: u32, wanted: usize) -> usize {
        let janitor = &self.janitor;
        let low = self.pages.low_water() as u64;
        let excess = janitor.excess.load(Ordering::Relaxed).min(low);
        let waited = janitor.excess_ticks.load(Ordering::Relaxed) + 1;
        let is_over = waited >= factor.max(UNNEEDED_TICKS);
        janitor.excess.store(if is_over { u64::MAX } else { excess }, Ordering::Relaxed);
        janitor.excess_ticks.store(if is_over { 0 } else { waited }, Ordering::Relaxed);
        match (waits, is_over) {
            (true, false) => usize::MAX,
            (false, false) => retained.max(wanted),
            (_, true) => {
                let needed = self.pages.dirty_free_bytes().saturating_sub(excess as usize);
                retained.max(if waits { needed } else { needed.min(wanted) })
            }
        }
    }

    fn retained_bytes(&self, live: usize) -> usize {
        let amount = match self.options.get(OptionId::retain) {
            AUTO => AUTO_RETAIN,
            amount => amount,
        };
        match percent_of(amount) {
            Some(percent) => (live as u64 / 100).saturating_mul(percent).max(LEAST_RETAIN) as usize,
            None => amount as usize,
        }
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
            && !self.janitor.limits_known.load(Ordering::Relaxed)
            && !self.janitor.limits_known.swap(true, Ordering::Relaxed)
        {
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

    /// Relieves the heap where it has grown by a step since the last time. Over the limit with nothing left
    /// to give, each slow path would otherwise try again for nothing.
    fn relieve_if_grown(&self) {
        let limit = self.pages.limits.soft().unwrap_or(0);
        let (step, at) = (limit / RELIEF_STEP, self.janitor.relieve_at.load(Ordering::Relaxed) as usize);
        let footprint = self.pages.footprint();
        if footprint < at && footprint + 2 * step > at {
            return;
        }
        self.relieve();
        self.janitor.relieve_at.store((self.pages.footprint() + step) as u64, Ordering::Relaxed);
        self.janitor.callback_due.store(true, Ordering::Relaxed);
    }

    /// Brings everything back that can come back, now; returns the bytes that went to the system.
    #[inline(never)]
    pub(super) fn relieve(&self) -> usize {
        self.reclaim();
        let given = self.tidy_spans(0) + self.pages.give_back(&self.os, 0, 0);
        self.count_given_back(given);
        given
    }

    pub(super) fn count_given_back(&self, bytes: usize) {
        self.janitor.given_back.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Calls the program's function for memory pressure, if the limit was passed and there is one. Never from
    /// inside a slow path: the function is free to use the heap. One call at a time: a function that
    /// allocates would call itself for ever. What becomes due meanwhile waits for the slow path after it.
    #[inline]
    pub(super) fn call_back_if_due(&self) {
        let Janitor { callback_due: due, calling_back: calling, .. } = &self.janitor;
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
        let callback = self.pressure_callback.load(Ordering::Acquire);
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
        self.pressure_callback.store(address, Ordering::Release);
    }
}
