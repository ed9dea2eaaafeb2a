//! Relief: memory that goes while the heap is over its soft limit, how often, and when the program is told.
//!
//! Step by step: to try at each slow path would be all that a heap does which has nothing left to give.

use super::limits::is_over;
use super::{Floors, Ticker, Upkeep};
use crate::base::fault::Misuse;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::os::Os;

/// A heap of fewer bytes does not ask what its limits are.
const SMALL_HEAP: usize = 8 << 20;
/// Over the soft limit the heap is relieved again when it has grown by this part of the limit, or of what it holds.
const RELIEF_STEP: usize = 64;
/// If a relief brought the heap no further down than the limit, the next waits for twice the growth, up to so many
/// steps; but not where fewer than these are left of what the cgroup allows.
const MOST_STEPS: u32 = 8;
const STEPS_OF_ROOM: usize = 4;

/// How far the heap may grow before it is relieved again.
pub struct Relief {
    /// The footprint at which the next step of growth ends, and that at which this one began.
    at: AtomicU64,
    from: AtomicU64,
    /// Steps until the heap is relieved again, and how many it was let go last time.
    steps_left: AtomicU32,
    steps: AtomicU32,
    /// Relief waits for somebody to write what nobody has written yet.
    is_put_off: AtomicBool,
}

impl Relief {
    pub const fn new() -> Self {
        Relief {
            at: AtomicU64::new(0),
            from: AtomicU64::new(0),
            steps_left: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            is_put_off: AtomicBool::new(false),
        }
    }
}

impl<O: Os> Upkeep<O> {
    /// Reads the cgroup and sets the limits that follow from it and from the options.
    #[inline(never)]
    pub fn read_limits(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        self.learn_group(floors);
        self.relieve_if_over(floors)
    }

    /// The same for an option that was changed from outside, by whichever thread comes by: a thread that may not open
    /// files goes by the cgroup as it was read last.
    pub fn obey_limits(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if self.may_open_files() {
            return self.read_limits(floors);
        }
        self.set_limits(floors, self.known_group(floors));
        self.relieve_if_over(floors)
    }

    /// Whether this thread may open a file, which nobody else has asked for.
    pub(super) fn may_open_files(&self) -> bool {
        self.thread.is_aside() || self.thread.may_open_files(Ticker::Program)
    }

    fn relieve_if_over(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        // Somebody may have written meanwhile what relief was put off for.
        if self.relief.is_put_off.swap(false, Ordering::Relaxed) {
            self.relief.at.store(0, Ordering::Relaxed);
        }
        if is_over(floors) { self.relieve_if_grown(floors) } else { Ok(()) }
    }

    /// Reads the limits once when the heap is no longer small, without waiting for the first tick: a process
    /// can fill its cgroup in less time.
    #[inline]
    pub fn learn_limits(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if floors.pages.mapped_bytes() >= SMALL_HEAP && !self.group.is_known() {
            return self.learn_limits_alone(floors);
        }
        Ok(())
    }

    /// Reads the limits once, however small the heap is: before the process has a second thread, in whose way an open
    /// file could be.
    pub fn learn_limits_alone(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if self.group.is_to_be_read() { self.read_limits(floors) } else { Ok(()) }
    }

    /// Relieves the heap where it has grown by a step since the last time, or waits for the thread that does. Over the
    /// limit with nothing left to give, each slow path would otherwise try again for nothing.
    #[cold]
    #[inline(never)]
    pub fn relieve_if_grown(&self, floors: &Floors<O>) -> Result<(), Misuse> {
        if !self.is_relief_due(floors) {
            floors.pages.limits.forget_passed();
            return Ok(());
        }
        let held = self.relieving.lock();
        // Growth past the limit from here on is seen anew, and its thread waits for this one.
        floors.pages.limits.forget_passed();
        if self.is_halted.load(Ordering::Relaxed) || !self.is_relief_due(floors) || self.is_put_off(floors) {
            return Ok(());
        }
        let (outcome, was_enough) =
            if self.lets_go(floors) { (Ok(0), false) } else { self.relieve_by_step(floors) };
        self.begin_step(floors, floors.pages.footprint(), None);
        if !was_enough {
            self.callback.make_due();
        }
        drop(held);
        outcome.map(|_| ())
    }

    /// Relieves the heap; and whether what lay outside the caches brought it below its limit.
    fn relieve_by_step(&self, floors: &Floors<O>) -> (Result<usize, Misuse>, bool) {
        // That first: if it makes room for a step of growth, the caches stay as they are.
        self.release_idle(floors);
        let was_enough = !is_over(floors);
        let outcome = if has_room_for_a_step(floors) { Ok(0) } else { self.relieve(floors) };
        let Relief { steps, steps_left, .. } = &self.relief;
        // If the heap is still over its limit there is little to be had: relief is tried less and less often.
        let next =
            if is_over(floors) { (2 * steps.load(Ordering::Relaxed) + 1).min(MOST_STEPS - 1) } else { 0 };
        steps.store(next, Ordering::Relaxed);
        steps_left.store(next, Ordering::Relaxed);
        (outcome, was_enough)
    }

    /// Whether a step of growth is let go without relief, because the last one brought little. Never where the heap
    /// has fallen since, where by now there is more to be had, and near the end of what the cgroup allows.
    fn lets_go(&self, floors: &Floors<O>) -> bool {
        let Relief { steps, steps_left: left, at, .. } = &self.relief;
        let (footprint, steps_left) = (floors.pages.footprint(), left.load(Ordering::Relaxed));
        let step = relief_step(floors, footprint);
        let has_grown = footprint as u64 >= at.load(Ordering::Relaxed);
        let is_little =
            floors.pages.dirty_free_bytes() / (steps.load(Ordering::Relaxed) as usize + 1) <= step;
        let room =
            self.known_group(floors).map_or(usize::MAX, |group| group.limit.saturating_sub(group.in_use));
        let lets_go = steps_left > 0 && has_grown && is_little && room / STEPS_OF_ROOM >= step;
        left.store(if lets_go { steps_left - 1 } else { 0 }, Ordering::Relaxed);
        lets_go
    }

    fn begin_step(&self, floors: &Floors<O>, from: usize, length: Option<usize>) {
        let length = length.unwrap_or_else(|| relief_step(floors, from));
        self.relief.from.store(from as u64, Ordering::Relaxed);
        self.relief.at.store((from + length) as u64, Ordering::Relaxed);
    }

    /// Whether so much of what the heap holds was never written that less than the limit is in memory; then relief
    /// waits until the heap has grown by half of what is missing, or the limits are read again. Memory taken since
    /// these were read does not count: a new block is about to be written.
    fn is_put_off(&self, floors: &Floors<O>) -> bool {
        let in_memory = if self.may_open_files() { floors.os.own_memory() } else { None };
        let (Some(soft), Some(in_memory)) = (floors.pages.limits.soft(), in_memory) else {
            return false;
        };
        let footprint = floors.pages.footprint();
        let untouched = self.group.note_untouched(footprint.saturating_sub(in_memory));
        let missing = soft.saturating_sub(footprint - untouched);
        if missing < relief_step(floors, footprint - untouched) {
            return false;
        }
        self.relief.is_put_off.store(true, Ordering::Relaxed);
        self.begin_step(floors, footprint, Some(missing / 2));
        true
    }

    /// Whether the heap has grown by a step since the last one began, or fallen by as much.
    fn is_relief_due(&self, floors: &Floors<O>) -> bool {
        let (at, from, footprint) = (
            self.relief.at.load(Ordering::Relaxed) as usize,
            self.relief.from.load(Ordering::Relaxed) as usize,
            floors.pages.footprint(),
        );
        footprint >= at || footprint + relief_step(floors, footprint) <= from
    }
}

/// A part of the limit; of what the heap holds where that is more: a heap far over its limit would otherwise do little
/// else.
fn relief_step<O: Os>(floors: &Floors<O>, footprint: usize) -> usize {
    floors.pages.limits.soft().unwrap_or(0).max(footprint) / RELIEF_STEP
}

fn has_room_for_a_step<O: Os>(floors: &Floors<O>) -> bool {
    let footprint = floors.pages.footprint();
    footprint + relief_step(floors, footprint) <= floors.pages.limits.soft().unwrap_or(0)
}
