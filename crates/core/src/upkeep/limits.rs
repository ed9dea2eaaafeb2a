//! The limits that hold: those of the options, and those that the cgroup leaves.
//!
//! The limits themselves are kept by `pages`, which asks before memory comes into use.

use super::{Floors, Upkeep};
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::options::{AUTO, OptionId, percent_of};
use crate::os::{MemoryGroup, Os};

/// The soft limit, of what the cgroup allows: the rest is for stacks, code and page tables.
const GROUP_PERCENT: usize = 90;

/// The end is near where so much of what the cgroup allows is in use, without what it could give up.
pub(super) const END_PERCENT: usize = 98;
/// From here on it is looked for: by the janitor at every second tick, whether or not the heap is used, and while the heap
/// grows. Less than the end, because tables grow with the heap that only the next look counts.
pub(super) const WATCHED_PERCENT: usize = 90;

pub(super) fn part(limit: usize, percent: usize) -> usize {
    limit / 100 * percent
}

/// The bytes that a cgroup leaves to the heap: its limit less what others in the group use. Others can be page cache
/// that goes when it must: at least half is ours to use.
fn limit_beside(others: usize, limit: usize) -> usize {
    let allowed = part(limit, GROUP_PERCENT);
    allowed.saturating_sub(others).max(allowed / 2)
}

/// The cgroup as it was read.
pub struct Group {
    is_known: AtomicBool,
    /// The cgroup's limit and what others hold of it, when it was last read; 0: there is none.
    limit: AtomicUsize,
    others: AtomicUsize,
    /// Bytes of the heap that nobody had written when limits were read.
    untouched: AtomicUsize,
}

impl Group {
    pub const fn new() -> Self {
        Group {
            is_known: AtomicBool::new(false),
            limit: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            untouched: AtomicUsize::new(0),
        }
    }

    /// Whether the cgroup was read, or is about to be.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// True for the one caller who is to read the cgroup for the first time.
    pub(super) fn is_to_be_read(&self) -> bool {
        !self.is_known.swap(true, Ordering::Relaxed)
    }

    /// Notes and returns the bytes of the heap that nobody has written: no more than when limits were read.
    pub(super) fn note_untouched(&self, now: usize) -> usize {
        let untouched = self.untouched.load(Ordering::Relaxed).min(now);
        self.untouched.store(untouched, Ordering::Relaxed);
        untouched
    }
}

impl<O: Os> Upkeep<O> {
    /// Sets the limits of a heap that has just started. Unless one is a share of what the cgroup allows, that is read by
    /// the first tick: it takes a dozen system calls, too many for a process that hardly allocates.
    pub fn start_limits(&self, floors: &Floors<O>) {
        let limits = [OptionId::memory_limit, OptionId::hard_limit];
        let asked = limits.into_iter().any(|id| percent_of(floors.options.get(id)).is_some());
        self.set_limits(floors, if asked { floors.os.memory_group(false).unwrap_or(None) } else { None });
    }

    /// Reads what the cgroup allows, if nobody has.
    pub fn learn_group_once(&self, floors: &Floors<O>) {
        if self.group.is_to_be_read() {
            self.learn_group(floors);
        }
    }

    /// Reads what the cgroup allows. Memory that it could give up counts as free, but to ask for that is dearer: only
    /// where the heap would be over its limit without. So is what the heap holds and nobody has written.
    pub(super) fn learn_group(&self, floors: &Floors<O>) {
        let Ok(group) = floors.os.memory_group(false) else {
            return self.set_limits(floors, self.known_group(floors));
        };
        self.set_limits(floors, group);
        if is_over(floors) {
            let footprint = floors.pages.footprint();
            let untouched = floors.os.own_memory().map_or(0, |own| footprint.saturating_sub(own));
            self.group.untouched.store(untouched, Ordering::Relaxed);
            if group.is_some()
                && let Ok(group) = floors.os.memory_group(true)
            {
                self.set_limits(floors, group);
            }
        }
    }

    /// The cgroup as it was when it could be read.
    pub(super) fn known_group(&self, floors: &Floors<O>) -> Option<MemoryGroup> {
        let (limit, others) =
            (self.group.limit.load(Ordering::Relaxed), self.group.others.load(Ordering::Relaxed));
        (limit > 0).then(|| MemoryGroup { limit, in_use: others + self.own_footprint(floors) })
    }

    /// The bytes of this heap that the cgroup counts: blocks that nobody wrote are not among them.
    pub(super) fn own_footprint(&self, floors: &Floors<O>) -> usize {
        let footprint = floors.pages.footprint();
        footprint - self.group.untouched.load(Ordering::Relaxed).min(footprint)
    }

    /// Whether last words are still to be written when the end is near.
    pub(super) fn wants_words(&self, floors: &Floors<O>) -> bool {
        floors.options.get(OptionId::last_words) != 0 && self.words.are_awaited()
    }

    /// The footprint from which on its cgroup is to be watched, others in it as they are.
    fn end_for(&self, floors: &Floors<O>, limit: usize, others: usize) -> Option<usize> {
        let untouched = floors.pages.footprint().saturating_sub(self.own_footprint(floors));
        self.wants_words(floors).then(|| (part(limit, WATCHED_PERCENT) + untouched).saturating_sub(others))
    }

    pub(super) fn set_limits(&self, floors: &Floors<O>, group: Option<MemoryGroup>) {
        // A share is one of what this process may use.
        let bytes_of = |amount: u64| match percent_of(amount) {
            Some(percent) => {
                let memory = group.map_or_else(|| floors.os.memory_bytes(), |group| group.limit);
                memory / 100 * percent as usize
            }
            None => amount as usize,
        };
        let limit_by = |id: OptionId, auto: Option<usize>| match floors.options.get(id) {
            AUTO => auto,
            amount => Some(bytes_of(amount)).filter(|limit| *limit > 0),
        };
        let others = group.map_or(0, |group| group.in_use.saturating_sub(self.own_footprint(floors)));
        self.group.limit.store(group.map_or(0, |group| group.limit), Ordering::Relaxed);
        self.group.others.store(others, Ordering::Relaxed);
        floors.pages.limits.set_end(group.and_then(|group| self.end_for(floors, group.limit, others)));
        let auto = group.map(|group| limit_beside(others, group.limit));
        floors.pages.limits.set(limit_by(OptionId::memory_limit, auto), limit_by(OptionId::hard_limit, None));
    }
}

/// Whether the heap holds more than its soft limit.
pub fn is_over<O: Os>(floors: &Floors<O>) -> bool {
    floors.pages.limits.soft().is_some_and(|soft| floors.pages.footprint() > soft)
}
