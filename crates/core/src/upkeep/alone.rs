//! Giving back where there is no janitor: slow paths do its ticks, and come by often enough while something waits.
//!
//! Two rules. Memory that a free makes free is judged in that free, since nothing may follow it: beyond some bytes it
//! goes at once, unless the program was seen to want such memory again. And while more is free than may stay, malloc's
//! slow path comes by each time when some bytes were asked for, with a look at a cheap clock: light traffic then does
//! the ticks that a janitor would do. Nothing of this costs a fast path anything while nothing waits.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::ticks::{AtomicTick, Tick, Ticks};
use crate::options::{AUTO, OptionId};
use crate::os::Os;

/// So much free memory stays where it was made free: a quarter of a second's page faults at most when it is wanted again.
const KEPT: usize = 16 << 20;
/// By so much free memory has to grow until it is looked at again.
const STEP: usize = 1 << 20;
const LEAST_PORTION: usize = 2 << 20;
/// Nothing is learned from less.
const LEAST_LEARNED: u64 = 8 << 20;
/// Memory is wanted again where this part of what went came back.
const PART: u64 = 4;
/// Memory that came back so many ticks later came back late.
const SOON: Ticks = Ticks(128);
/// Half of the ticks for which the first wish counts; each further one counts twice as long.
const WISH: Ticks = Ticks(16);
const MOST_WISHES: u32 = 5;
/// Bytes between two looks at the clock in a busy program. Each slow path that finds another time has the next request look.
const MOST_BETWEEN_LOOKS: u64 = 64 << 10;
/// Free memory that came after the last looks were in vain.
const WORTH_LOOKS: usize = 8 << 20;

pub struct Alone {
    /// Something waits to be given back: malloc's slow path comes by.
    waits: AtomicBool,
    /// The cheap clock at the last look, and bytes until the next one.
    looked_at: AtomicU64,
    between: AtomicU64,
    /// The last tick that gave something back while something waits.
    gave_at: AtomicTick,
    /// Free bytes when waiting ended.
    left: AtomicUsize,
    /// Free bytes when frees were judged last; and free bytes in spans, from which on those are looked through again.
    judged: AtomicUsize,
    spans_from: AtomicUsize,
    /// Bytes that went as they became free, of what had come back by then, and when the last of them went.
    given: AtomicU64,
    came_back: AtomicU64,
    given_at: AtomicTick,
    /// How often the program was seen to want such memory again, and when last.
    wishes: AtomicU32,
    wished_at: AtomicTick,
    /// So much came back while that counts, and stays beside what may stay anyway.
    wanted: AtomicUsize,
}

impl Alone {
    pub(super) const WAITS: usize = core::mem::offset_of!(Alone, waits);

    pub const fn new() -> Self {
        Alone {
            waits: AtomicBool::new(false),
            looked_at: AtomicU64::new(0),
            between: AtomicU64::new(1),
            gave_at: AtomicTick::new(Tick(0)),
            left: AtomicUsize::new(0),
            judged: AtomicUsize::new(0),
            spans_from: AtomicUsize::new(0),
            given: AtomicU64::new(0),
            came_back: AtomicU64::new(0),
            given_at: AtomicTick::new(Tick(0)),
            wishes: AtomicU32::new(0),
            wished_at: AtomicTick::new(Tick(0)),
            wanted: AtomicUsize::new(0),
        }
    }

    /// In a new process.
    pub(super) fn forget(&self) {
        self.given.store(0, Ordering::Relaxed);
        self.wishes.store(0, Ordering::Relaxed);
    }

    /// Whether what came back stays as it becomes free, since the program wanted it again lately: longer each time.
    fn is_patient(&self, now: Tick) -> bool {
        let wishes = self.wishes.load(Ordering::Relaxed);
        wishes > 0 && now.since(self.wished_at.load()) < WISH * (1 << wishes.min(MOST_WISHES))
    }

    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}

impl<O: Os> Upkeep<O> {
    /// In a slow path of any kind: sets when the next request comes without need. Returns the cheap clock, while something
    /// waits.
    #[inline]
    pub(super) fn pace(&self, floors: &Floors<O>) -> Option<u64> {
        if self.alone.waits() { self.pace_while_waiting(floors) } else { None }
    }

    #[inline(never)]
    fn pace_while_waiting(&self, floors: &Floors<O>) -> Option<u64> {
        if self.thread.is_running() {
            self.end_waiting(floors, 0);
            return None;
        }
        let now = floors.os.roughly_now();
        if self.alone.looked_at.swap(now, Ordering::Relaxed) != now {
            self.look_after(floors, 1);
        }
        Some(now)
    }

    /// For a request that came without need: in a busy program the next one comes later.
    pub(super) fn pace_request(&self, floors: &Floors<O>) -> Option<u64> {
        let now = self.pace(floors)?;
        let between = self.alone.between.load(Ordering::Relaxed) * 2;
        self.look_after(floors, between.min(MOST_BETWEEN_LOOKS));
        Some(now)
    }

    fn look_after(&self, floors: &Floors<O>, bytes: u64) {
        self.alone.between.store(bytes, Ordering::Relaxed);
        floors.cache.look_every(bytes);
    }

    /// Does what is due after a slow path, every so often, where frees made memory free and while some waits.
    #[cold]
    #[inline(never)]
    pub(super) fn judge(&self, floors: &Floors<O>) {
        let holding = self.holding_now(floors);
        if !self.alone.waits() && holding.free > holding.retained.max(self.left_in_vain()) {
            self.begin_waiting(floors);
        }
        let kept = self.kept_at_once(floors);
        let dirty = floors.pages.dirty_free_bytes();
        let before = self.alone.judged.swap(dirty, Ordering::Relaxed);
        let stays = if holding.free > kept { kept + self.wanted_again(floors) } else { kept };
        if holding.free > stays {
            let portion = LEAST_PORTION.max(2 * dirty.saturating_sub(before));
            self.give_at_once(floors, dirty, stays.max(dirty.saturating_sub(portion)));
            self.subrelease_at_once(floors, stays, holding.free.saturating_sub(dirty));
        }
        let dirty = floors.pages.dirty_free_bytes();
        self.alone.judged.store(dirty, Ordering::Relaxed);
        // Up to what may stay nothing is done, and beyond it at each step.
        let next = if dirty < kept { holding.retained.clamp(dirty, kept) } else { dirty };
        floors.pages.limits.free.set(next + STEP);
    }

    fn left_in_vain(&self) -> usize {
        match self.alone.left.load(Ordering::Relaxed) {
            0 => 0,
            left => left + WORTH_LOOKS,
        }
    }

    /// So much free memory may stay as it becomes free; more where an option says so.
    fn kept_at_once(&self, floors: &Floors<O>) -> usize {
        match floors.options.get(OptionId::retain) {
            AUTO => KEPT,
            _ => self.holding_now(floors).retained.max(KEPT),
        }
    }

    fn give_at_once(&self, floors: &Floors<O>, dirty: usize, kept: usize) {
        if dirty > kept {
            self.count_gone(floors, floors.pages.release(&floors.os, kept, Ticks(0)));
        }
    }

    fn subrelease_at_once(&self, floors: &Floors<O>, kept: usize, in_spans: usize) {
        if in_spans > self.alone.spans_from.load(Ordering::Relaxed).max(kept) {
            let (gone, is_over) = self.subrelease_portion(floors);
            if is_over {
                let left = in_spans.saturating_sub(gone);
                self.alone.spans_from.store(left + left / 8, Ordering::Relaxed);
            }
            self.count_gone(floors, gone);
        }
    }

    fn count_gone(&self, floors: &Floors<O>, bytes: usize) {
        if bytes > 0 {
            self.count_released(bytes);
            self.shedding.note_shed(bytes);
            self.alone.given.fetch_add(bytes as u64, Ordering::Relaxed);
            self.alone.given_at.store(floors.pages.clock.load());
        }
    }

    /// The bytes that stay because the program took as many again of what had gone as it became free: they wait for ticks, as
    /// everything does. No more than came back: if one thread fills while another frees, the rest still goes.
    fn wanted_again(&self, floors: &Floors<O>) -> usize {
        let (alone, now) = (&self.alone, floors.pages.clock.load());
        let came_back = floors.pages.came_back(self.decay.too_soon_from(now));
        let given = alone.given.load(Ordering::Relaxed);
        let back = came_back.saturating_sub(alone.came_back.load(Ordering::Relaxed));
        let is_patient = alone.is_patient(now);
        let is_late = now.since(alone.given_at.load()) > SOON;
        let wants = !is_late && given >= LEAST_LEARNED && back >= given / PART;
        if wants {
            alone.wishes.fetch_add(1, Ordering::Relaxed);
            alone.wished_at.store(now);
        } else if !is_patient && is_late && given >= LEAST_LEARNED {
            alone.wishes.store(0, Ordering::Relaxed);
        }
        if wants || is_late {
            alone.given.store(0, Ordering::Relaxed);
        }
        let before = if is_patient { alone.wanted.load(Ordering::Relaxed) } else { 0 };
        let counts = wants || is_patient;
        // Of little that went much may come back by chance.
        if counts || given < LEAST_LEARNED {
            alone.came_back.store(came_back, Ordering::Relaxed);
        }
        let wanted = if counts { before.saturating_add(back as usize) } else { 0 };
        alone.wanted.store(wanted, Ordering::Relaxed);
        wanted
    }

    fn begin_waiting(&self, floors: &Floors<O>) {
        self.alone.gave_at.store(floors.pages.clock.load());
        self.alone.waits.store(true, Ordering::Relaxed);
        self.look_after(floors, 1);
    }

    fn end_waiting(&self, floors: &Floors<O>, left: usize) {
        self.alone.left.store(left, Ordering::Relaxed);
        self.alone.waits.store(false, Ordering::Relaxed);
        floors.cache.look_every(0);
    }

    /// At the end of a tick: whether looks go on. They end where no more is free than may stay, and where nothing goes
    /// although it had the time.
    pub(super) fn settle_waiting(&self, floors: &Floors<O>, now: Tick, gone: usize, decay: Ticks) {
        if self.thread.is_running() {
            return;
        }
        let holding = self.holding_now(floors);
        floors.pages.limits.free.set(holding.retained.min(KEPT));
        if gone > 0 {
            self.alone.gave_at.store(now);
        }
        if !self.alone.waits() {
            let left = self.alone.left.load(Ordering::Relaxed).min(holding.free);
            return self.alone.left.store(left, Ordering::Relaxed);
        }
        let is_done = holding.free <= holding.retained;
        if is_done || now.since(self.alone.gave_at.load()) > decay {
            self.end_waiting(floors, if is_done { 0 } else { holding.free });
        }
    }
}
