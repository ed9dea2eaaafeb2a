//! How much free memory a program may hold, by what lives and by what it keeps needing.
//!
//! `tick` asks each time, `shed` while the heap grows. Nothing here gives anything back.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::options::{AUTO, OptionId, Options, encode_percent, percent_of};
use crate::os::Os;

/// Nothing waits where free memory exceeds this part of what lives, and these bytes: a longer decay has a price in
/// memory, and ends where that would be too high.
const PATIENT_PART: usize = 2;
const PATIENT_BYTES: usize = 16 << 20;
/// Free memory beyond `retain` goes when nobody needed it for so many ticks, at least.
const UNNEEDED_TICKS: u32 = 2;
/// The share that may stay if that is left to us.
const AUTO_RETAIN: u64 = encode_percent(25);
/// Free memory below this may always stay for `release_delay`.
const LEAST_RETAIN: u64 = 8 << 20;

/// Figures of the last ticks, needed to know what may stay.
pub struct Retain {
    /// Ticks until what nobody needed meanwhile goes, and the least of it until now.
    excess_ticks: AtomicU32,
    excess: AtomicU64,
    /// By how many bytes there were more large blocks in the last tick than at its end.
    large_swing: AtomicUsize,
}

impl Retain {
    pub const fn new() -> Self {
        Retain {
            excess_ticks: AtomicU32::new(0),
            excess: AtomicU64::new(u64::MAX),
            large_swing: AtomicUsize::new(0),
        }
    }
}

/// The memory that a heap holds, and how much of it may stay. In bytes.
#[derive(Clone, Copy)]
pub struct Holding {
    /// Free memory outside caches, and what is left of the heap without it.
    pub free: usize,
    pub live: usize,
    /// Free memory that large blocks may want, in a program at work: twice as many bytes as there were more
    /// of them a moment ago than there are now. They take whole runs from the page heap and give them back
    /// whole: memory that they leave is not what fragmentation left, so it may stay also where free memory
    /// is plenty.
    pub wanted: usize,
    /// More than this, without what is wanted, and nothing waits.
    pub most: usize,
    /// Free memory that may stay for `release_delay` in any case.
    pub retained: usize,
}

impl Holding {
    /// Whether there is more free memory than a longer decay is worth.
    pub fn is_plenty(&self) -> bool {
        self.unwanted() > self.most
    }

    pub fn unwanted(&self) -> usize {
        self.free.saturating_sub(self.wanted)
    }
}

impl<O: Os> Upkeep<O> {
    /// The heap's holding at a tick. `at_work`: something happened since the last one.
    pub(super) fn holding_at_tick(&self, floors: &Floors<O>, at_work: bool) -> Holding {
        let swing = floors.pages.large_swing();
        let before = self.retain.large_swing.swap(swing, Ordering::Relaxed);
        self.holding(floors, if at_work { swing.max(before) } else { 0 })
    }

    /// The heap's holding between two ticks, in a program at work.
    pub(crate) fn holding_now(&self, floors: &Floors<O>) -> Holding {
        let swing = self.retain.large_swing.load(Ordering::Relaxed).max(floors.pages.large_swing_now());
        self.holding(floors, swing)
    }

    fn holding(&self, floors: &Floors<O>, swing: usize) -> Holding {
        let (free, live) = free_and_live(floors);
        let most = live / PATIENT_PART + PATIENT_BYTES;
        Holding { free, live, wanted: 2 * swing, most, retained: retained_bytes(&floors.options, live) }
    }

    /// The free memory that a tick leaves: as much as is to be retained, and as was needed in the last ticks.
    /// How many of those grows with the decay's factor. If nothing `waits`, at most what is wanted is needed.
    pub(super) fn kept_bytes(&self, floors: &Floors<O>, holding: Holding, waits: bool, factor: u32) -> usize {
        let (keep, Holding { retained, wanted, .. }) = (&self.retain, holding);
        let low = floors.pages.low_water() as u64;
        let excess = keep.excess.load(Ordering::Relaxed).min(low);
        let waited = keep.excess_ticks.load(Ordering::Relaxed) + 1;
        let is_over = waited >= factor.max(UNNEEDED_TICKS);
        keep.excess.store(if is_over { u64::MAX } else { excess }, Ordering::Relaxed);
        keep.excess_ticks.store(if is_over { 0 } else { waited }, Ordering::Relaxed);
        match (waits, is_over) {
            (true, false) => usize::MAX,
            (false, false) => retained.max(wanted),
            (_, true) => {
                let needed = floors.pages.dirty_free_bytes().saturating_sub(excess as usize);
                retained.max(if waits { needed } else { needed.min(wanted) })
            }
        }
    }
}

/// Free memory outside caches, and what is left of the heap without it.
fn free_and_live<O: Os>(floors: &Floors<O>) -> (usize, usize) {
    let (pages, in_spans) = (floors.pages.stats(), floors.central.free_in_spans());
    let in_memory = in_spans.saturating_sub(pages.released as usize);
    (pages.dirty_free as usize + in_memory, (pages.used as usize).saturating_sub(in_spans))
}

/// Free memory that may stay in any case where so many bytes live.
fn retained_bytes(options: &Options, live: usize) -> usize {
    let amount = match options.get(OptionId::retain) {
        AUTO => AUTO_RETAIN,
        amount => amount,
    };
    match percent_of(amount) {
        Some(percent) => (live as u64 / 100).saturating_mul(percent).max(LEAST_RETAIN) as usize,
        None => amount as usize,
    }
}
