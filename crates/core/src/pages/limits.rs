//! The heap's own limits on what it holds in memory.

use super::{Pages, State};
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::base::ticks::Ticks;
use crate::class::UNIT_BYTES;
use crate::os::{Guard, Os};

const NONE: usize = usize::MAX;

/// Bounds of the footprint, in bytes.
pub struct Limits {
    pub(super) soft: AtomicUsize,
    pub(super) hard: AtomicUsize,
    /// The soft limit was passed since `forget_passed`.
    passed: AtomicBool,
    /// The footprint that is worth a look.
    pub footprint: Mark,
    /// The footprint from which on the end of the process is looked for, and whether it was passed since.
    end: AtomicUsize,
    near_end: AtomicBool,
    /// The free memory that is worth a look.
    pub free: Mark,
    /// The hard limit refused memory since `take_refused`.
    refused: AtomicBool,
}

/// An amount that somebody wants to be told of.
pub struct Mark {
    bytes: AtomicUsize,
    passed: AtomicBool,
}

impl Mark {
    const fn new(bytes: usize) -> Self {
        Mark { bytes: AtomicUsize::new(bytes), passed: AtomicBool::new(false) }
    }

    pub fn set(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.passed.store(false, Ordering::Relaxed);
    }

    /// Notes how much there is.
    pub(super) fn note(&self, bytes: usize) {
        if bytes > self.bytes.load(Ordering::Relaxed) && !self.passed.load(Ordering::Relaxed) {
            self.passed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there was more since it was set.
    #[inline]
    pub fn is_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
}

impl Limits {
    pub const fn new() -> Self {
        Limits {
            soft: AtomicUsize::new(NONE),
            hard: AtomicUsize::new(NONE),
            passed: AtomicBool::new(false),
            footprint: Mark::new(NONE),
            end: AtomicUsize::new(NONE),
            near_end: AtomicBool::new(false),
            free: Mark::new(0),
            refused: AtomicBool::new(false),
        }
    }

    pub fn set(&self, soft: Option<usize>, hard: Option<usize>) {
        self.soft.store(soft.unwrap_or(NONE), Ordering::Relaxed);
        self.hard.store(hard.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// The soft one, the hard one, and that from which on the end is looked for.
    #[inline]
    fn all(&self) -> [usize; 3] {
        [&self.soft, &self.hard, &self.end].map(|limit| limit.load(Ordering::Relaxed))
    }

    pub fn soft(&self) -> Option<usize> {
        Some(self.soft.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    pub fn hard(&self) -> Option<usize> {
        Some(self.hard.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    /// From which footprint on the end of the process is to be looked for.
    pub fn set_end(&self, footprint: Option<usize>) {
        self.end.store(footprint.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Whether that footprint was passed since this was asked last.
    #[inline]
    pub fn take_near_end(&self) -> bool {
        self.near_end.load(Ordering::Relaxed) && self.near_end.swap(false, Ordering::Relaxed)
    }

    pub(super) fn note_refused(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Whether the hard limit refused memory since this was asked last.
    pub fn take_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// Whether the soft limit was passed since `forget_passed`.
    pub fn is_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    pub fn forget_passed(&self) {
        self.passed.store(false, Ordering::Relaxed);
    }
}

impl<O: Os> Pages<O> {
    /// Whether with `more` bytes in use the heap would be past one of its limits: then `fits_limits` says what comes of it.
    #[inline]
    pub(super) fn comes_to_a_limit(&self, state: &Guard<'_, State, O>, more: usize) -> bool {
        let [soft, hard, end] = self.limits.all();
        self.footprint_of(state).saturating_add(more) > soft.min(hard).min(end)
    }

    /// The lock again, if so many more units may come into use.
    pub(super) fn admit<'a>(
        &'a self,
        os: &O,
        mut state: Guard<'a, State, O>,
        units: u32,
    ) -> Option<Guard<'a, State, O>> {
        let bytes = units as usize * UNIT_BYTES;
        // With the lock in hand: to take it for this look alone would be every third time that it is taken.
        if self.comes_to_a_limit(&state, bytes) {
            drop(state);
            if !self.fits_limits(os, bytes) {
                return None;
            }
            state = self.lock();
        }
        let is_allowed = self.is_allowed(&state, units);
        if !is_allowed {
            self.limits.note_refused();
        }
        is_allowed.then_some(state)
    }

    /// The look at the hard limit under the lock: several threads may have passed the one without it.
    pub(super) fn is_allowed(&self, state: &Guard<'_, State, O>, units: u32) -> bool {
        self.footprint_of(state).saturating_add(units as usize * UNIT_BYTES)
            <= self.limits.hard().unwrap_or(usize::MAX)
    }

    /// Tells whether `more` bytes may come into use; gives free memory back first where the hard limit would be
    /// passed. That the soft one would be is only noted: the heap is relieved by steps, not at each call.
    pub(super) fn fits_limits(&self, os: &O, more: usize) -> bool {
        let [soft, hard, end] = self.limits.all();
        let least = soft.min(hard).min(end);
        if least == NONE || !self.would_pass(least, more) {
            return true;
        }
        if self.would_pass(end, more) {
            self.limits.near_end.store(true, Ordering::Relaxed);
        }
        // Not where that is not enough: a refused request costs the next blocks nothing.
        if self.would_pass(hard, more)
            && self.footprint().saturating_sub(self.dirty_free_bytes()).saturating_add(more) <= hard
        {
            self.release(os, 0, Ticks(0));
        }
        if self.would_pass(soft, more) {
            self.limits.passed.store(true, Ordering::Relaxed);
        }
        let fits = !self.would_pass(hard, more);
        if !fits {
            self.limits.note_refused();
        }
        fits
    }

    /// Whether a block of so many bytes at a multiple of `align`, which was refused, could be had if `cached` bytes more
    /// were free that lie in small blocks now. If it is the system that refuses, it must fit into what is mapped.
    pub fn could_have(&self, bytes: usize, align: usize, cached: usize) -> bool {
        let (stats, base) = (self.stats(), self.base.load(Ordering::Relaxed));
        let (used, dirty_free) = (stats.used as usize, stats.dirty_free as usize);
        let footprint = (used + dirty_free).saturating_sub(stats.released as usize);
        let hard = self.limits.hard.load(Ordering::Relaxed);
        if footprint.saturating_add(bytes) > hard {
            return footprint.saturating_sub(dirty_free + cached).saturating_add(bytes) <= hard;
        }
        let end = base.checked_next_multiple_of(align.max(1)).and_then(|start| start.checked_add(bytes));
        end.is_some_and(|end| end <= base + self.mapped_bytes())
            && bytes <= stats.mapped as usize - used + cached
    }

    fn would_pass(&self, limit: usize, more: usize) -> bool {
        self.footprint().saturating_add(more) > limit
    }
}
