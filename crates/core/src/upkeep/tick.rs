//! The janitor's work in a tick, and when a tick is due.

use super::{Floors, Holding, Ticker, Upkeep};
use crate::base::fault::Misuse;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::ticks::{Tick, Ticks};
use crate::cache::Stillness;
use crate::class::SizeClass;
use crate::options::{OptionId, Options};
use crate::os::Os;
use crate::pages::LEAST_KEPT;
use crate::upkeep::decay::Seen;

/// Ticks in one `release_delay`.
const TICKS_PER_DELAY: u32 = 4;
const DELAY: Ticks = Ticks(TICKS_PER_DELAY);
/// Limits and memory pressure are read from files, a dozen or more in a deep hierarchy of groups: not at each
/// tick.
const TICKS_PER_LOOK_OUTSIDE: u32 = 2;
/// The number of CPUs changes seldom: with the cpuset of a container, or its quota.
const TICKS_PER_LOOK_AT_CPUS: u32 = 4 * TICKS_PER_DELAY;
/// A cache that nobody used for so many ticks is emptied: half a delay, since to stop it interrupts other
/// CPUs. A class in a cache that is in use waits as long where the heap holds too much, else a whole delay.
const STILL_TICKS: Ticks = Ticks(2);
/// Idle pages of spans beyond `retain` wait so long.
const EXCESS_TICKS: Ticks = Ticks(1);
/// After so many ticks without any event everything that can go has gone.
const QUIET_TICKS: u32 = 2 * TICKS_PER_DELAY + STILL_TICKS.0;
/// A block is warm, and worth a huge page, when it has been full for so many ticks.
const WARM_TICKS: Ticks = Ticks(4 * TICKS_PER_DELAY);
/// Huge pages are made a few at a time: each stalls whoever faults in this process meanwhile.
const COLLAPSES_PER_TICK: u32 = 2;
/// After it made some it waits for so many times as long as that took: a thousandth of a CPU at most.
const TIMES_UNTIL_NEXT_COLLAPSE: u64 = 1000;
/// Slow paths look at the clock every so many events.
const EVENTS_PER_LOOK: u32 = 64;

/// When there were ticks, and when the next one is due.
pub struct Schedule {
    pub(super) count: AtomicU64,
    /// Slow paths, where they do the ticks.
    events: AtomicU32,
    next: AtomicU64,
    /// One tick at a time.
    is_under_way: AtomicBool,
    /// Ticks in a row that had nothing to do.
    quiet: AtomicU32,
    pub(super) huge_stall: AtomicU64,
    next_collapse: AtomicU64,
}

impl Schedule {
    pub const fn new() -> Self {
        Schedule {
            count: AtomicU64::new(0),
            events: AtomicU32::new(0),
            next: AtomicU64::new(0),
            is_under_way: AtomicBool::new(false),
            quiet: AtomicU32::new(0),
            huge_stall: AtomicU64::new(0),
            next_collapse: AtomicU64::new(0),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Nanoseconds spent making huge pages.
    pub(super) fn huge_stall(&self) -> u64 {
        self.huge_stall.load(Ordering::Relaxed)
    }

    /// In a forked child: no other thread does a tick.
    pub(super) fn forget_thread(&self) {
        self.is_under_way.store(false, Ordering::Relaxed);
    }
}

/// The facts that the work of one tick goes by.
struct Round {
    now: Tick,
    /// Something happened since the last one.
    rung: bool,
    holding: Holding,
    /// More is free than a longer decay is worth.
    plenty: bool,
    /// Memory that was used a moment ago may stay.
    waits: bool,
    /// The delay is longer by this.
    factor: u32,
}

impl Round {
    fn delay(&self) -> Ticks {
        DELAY * self.factor
    }

    /// Blocks that nobody used for a moment are young; in a program that stopped, or holds too much, none are.
    fn free_since(&self, ticks: Ticks) -> Tick {
        self.now.before(if self.waits { ticks } else { self.delay() })
    }

    /// For how long a span must stand still before its idle pages go: less where a program holds too much.
    fn ticks_in_spans(&self) -> Ticks {
        let too_much = self.plenty && self.holding.free > self.holding.retained;
        if too_much { EXCESS_TICKS } else { self.delay() }
    }
}

/// The first misuse that a tick came upon. A janitor aside does the rest of its tick: it leaves the end of the process to
/// a thread of the program.
struct First {
    goes_on: bool,
    misuse: Option<Misuse>,
}

impl First {
    /// Passes a value on; an error where the tick ends here.
    fn of<T: Default>(&mut self, outcome: Result<T, Misuse>) -> Result<T, Misuse> {
        match outcome {
            Err(misuse) if self.goes_on => {
                self.misuse.get_or_insert(misuse);
                Ok(T::default())
            }
            outcome => outcome,
        }
    }
}

/// Large blocks that were freed a moment ago may be kept between two ticks up to this part of what lives, and so many bytes.
const KEPT_PART: usize = 16;
const MOST_KEPT: usize = 64 << 20;

/// How long there is between two ticks.
pub fn nanoseconds(options: &Options) -> u64 {
    options.get(OptionId::release_delay) / TICKS_PER_DELAY as u64
}

impl<O: Os> Upkeep<O> {
    /// Does what is due after a slow path whose work is done, with no lock held.
    #[inline]
    pub fn after_slow_path(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        self.thread.ring();
        // With a thread for it nobody counts: a count that all CPUs write would cost more than what it is
        // for.
        if !self.thread.is_running() {
            self.after_slow_path_alone(floors)?;
            // A janitor may have ended before they were closed; a child has none.
            if self.has_ended(floors) {
                self.close_ended(floors);
            }
        }
        if floors.pages.limits.is_passed() {
            self.relieve_if_grown(floors)?;
        }
        if floors.pages.limits.take_near_end() {
            self.note_growth_to_end(floors);
        }
        if floors.pages.limits.footprint.is_passed() {
            self.shed(floors);
        }
        floors.pages.prefault(&floors.os);
        Ok(())
    }

    /// The work of a janitor that is not there.
    fn after_slow_path_alone(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        let looks = self.schedule.events.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVENTS_PER_LOOK);
        if looks || self.pace(floors).is_some_and(|now| self.is_tick_due(now)) {
            self.tick_if_due(floors)?;
        }
        if looks || floors.pages.limits.free.is_passed() {
            self.judge(floors);
        }
        Ok(())
    }

    /// For a request that came to the slow path without need: whether a tick is due. Cheap.
    #[inline]
    pub fn look(&self, floors: &Floors<O>) -> bool {
        self.pace_request(floors).is_some_and(|now| self.is_tick_due(now))
    }

    fn is_tick_due(&self, now: u64) -> bool {
        now >= self.schedule.next.load(Ordering::Relaxed)
    }

    /// Does a tick if the last one was long enough ago: the janitor's work where it has no thread.
    fn tick_if_due(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        let (now, next) = (floors.os.now(), &self.schedule.next);
        let due = next.load(Ordering::Relaxed);
        let after = now.saturating_add(nanoseconds(&floors.options));
        if now >= due && next.compare_exchange(due, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return self.tick(floors, true, Ticker::Program);
        }
        Ok(())
    }

    /// One tick. `rung`: something happened since the last one.
    pub fn tick(&self, floors: &Floors<O>, rung: bool, ticker: Ticker) -> Result<(), Misuse> {
        if self.schedule.is_under_way.swap(true, Ordering::Acquire) {
            return Ok(());
        }
        let outcome = self.tick_alone(floors, rung, ticker);
        self.schedule.is_under_way.store(false, Ordering::Release);
        outcome
    }

    fn tick_alone(&self, floors: &Floors<O>, rung: bool, ticker: Ticker) -> Result<(), Misuse> {
        let round = self.begin_tick(floors, rung);
        let mut first = First { goes_on: ticker == Ticker::Aside, misuse: None };
        let moved = self.empty_what_is_still(floors, &round, &mut first)?;
        // In a child, and after a thread that ended a heap was interrupted: else nothing is left for a tick.
        self.close_ended(floors);
        let released = self.release_at_tick(floors, &round);
        let shed = self.shedding.take_shed();
        self.learn(floors, &round, released + shed);
        self.settle_waiting(floors, round.now, released + shed, Ticks(QUIET_TICKS) * round.factor);
        self.watch_growth(floors, round.holding.live);
        self.make_huge_pages(floors);
        if round.now.0.is_multiple_of(TICKS_PER_LOOK_OUTSIDE) && self.thread.may_open_files(ticker) {
            if round.now.0.is_multiple_of(TICKS_PER_LOOK_AT_CPUS) {
                self.learn_cpus_at_tick(floors);
            }
            first.of(self.read_limits(floors))?;
            if floors.os.is_under_pressure() {
                first.of(self.relieve(floors))?;
            }
            self.look_for_end(floors);
        }
        match rung || moved {
            true => self.schedule.quiet.store(0, Ordering::Relaxed),
            false => _ = self.schedule.quiet.fetch_add(1, Ordering::Relaxed),
        }
        first.misuse.map_or(Ok(()), Err)
    }

    fn begin_tick(&self, floors: &Floors<O>, rung: bool) -> Round {
        let now = floors.pages.clock.advance(Ticks(1));
        self.schedule.count.fetch_add(1, Ordering::Relaxed);
        let holding = self.holding_at_tick(floors, rung);
        let plenty = holding.is_plenty();
        floors.pages.kept.set_most(if self.thread.is_running() {
            (holding.live / KEPT_PART).clamp(LEAST_KEPT, MOST_KEPT)
        } else {
            LEAST_KEPT
        });
        let factor = if plenty { 1 } else { self.decay.factor() };
        Round { now, rung, holding, plenty, waits: rung && !plenty, factor }
    }

    /// Brings back what nobody used in caches and transfer arrays. True where something in a cache has moved.
    fn empty_what_is_still(
        &self,
        floors: &Floors<O>,
        round: &Round,
        first: &mut First,
    ) -> Result<bool, Misuse> {
        let slab = STILL_TICKS * round.factor;
        let anyhow = self.choose_condensing(floors, round.now);
        let still = Stillness { slab, class: if round.plenty { STILL_TICKS } else { round.delay() }, anyhow };
        let free_since = |ticks| round.free_since(ticks);
        let look = first.of(floors.cache.drain_still(&floors.store, still, free_since))?;
        let tenants =
            first.of(floors.tenants.drain_still(&floors.store, &floors.cache, still, free_since))?;
        let refused = u64::from(look.refused) + u64::from(tenants.refused);
        self.fences_refused.fetch_add(refused, Ordering::Relaxed);
        first.of(self.keep_bound_at_tick(floors))?;
        first.of(floors.large.audit(&floors.pages))?;
        for class in SizeClass::all() {
            if anyhow >> class.index() & 1 != 0 {
                first.of(floors.central.drain(&floors.pages, class, usize::MAX))?;
            }
            first.of(floors.central.trim(&floors.pages, class, round.free_since(Ticks(1))))?;
            floors.central.forget_array(&floors.os, class, slab);
        }
        Ok(look.moved || tenants.moved)
    }

    /// Returns the bytes that went to the system.
    fn release_at_tick(&self, floors: &Floors<O>, round: &Round) -> usize {
        let released = self.subrelease_spans(floors, round.ticks_in_spans())
            + floors.pages.release(
                &floors.os,
                self.kept_bytes(floors, round.holding, round.waits, round.factor),
                Ticks(0),
            )
            + floors.pages.release(&floors.os, 0, round.delay());
        self.count_released(released);
        released
    }

    /// Whether memory waits longer than `release_delay` because the program keeps wanting it again.
    pub fn is_patient(&self) -> bool {
        self.decay.factor() > 1
    }

    /// For the janitor's thread: sleeps until something happens, where everything that can go has gone and nothing
    /// `keeps_awake`.
    pub fn sleep_if_quiet(&self, floors: &Floors<O>, keeps_awake: impl FnOnce() -> bool) {
        let quiet = QUIET_TICKS.max(floors.tenants.longest_delay().saturating_add(1));
        if self.schedule.quiet.load(Ordering::Relaxed) > quiet && !keeps_awake() {
            self.thread.sleep();
            self.schedule.quiet.store(0, Ordering::Relaxed);
        }
    }

    fn learn(&self, floors: &Floors<O>, round: &Round, released: usize) {
        let Round { now, rung, .. } = *round;
        let came_back = floors.pages.came_back(self.decay.too_soon_from(now));
        let (work, released) = (floors.cache.work(), released as u64);
        self.decay.note(Seen { now, rung, work, released, came_back, delay: DELAY });
    }

    #[inline(never)]
    fn make_huge_pages(&self, floors: &Floors<O>) {
        if !floors.options.is_on(OptionId::huge_pages) || !floors.pages.may_have_huge_pages() {
            return;
        }
        let before = floors.os.now();
        if before < self.schedule.next_collapse.load(Ordering::Relaxed) {
            return;
        }
        if floors.pages.collapse_dense(&floors.os, COLLAPSES_PER_TICK, WARM_TICKS) > 0 {
            let took = floors.os.now() - before;
            self.schedule.huge_stall.fetch_add(took, Ordering::Relaxed);
            self.schedule.next_collapse.store(before + took * TIMES_UNTIL_NEXT_COLLAPSE, Ordering::Relaxed);
        }
    }
}
