//! The heap's own limits on what it holds in memory.

use super::Pages;
use crate::base::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::base::ticks::Ticks;
use crate::os::Os;

const NONE: usize = usize::MAX;

/// Bounds of the footprint, in bytes.
pub struct Limits {
    pub(super) soft: AtomicUsize,
    pub(super) hard: AtomicUsize,
    /// The soft limit was passed since `forget_passed`.
    passed: AtomicBool,
    /// The footprint that is worth a look, and whether it was passed since.
    watermark: AtomicUsize,
    above: AtomicBool,
}

impl Limits {
    pub const fn new() -> Self {
        Limits {
            soft: AtomicUsize::new(NONE),
            hard: AtomicUsize::new(NONE),
            passed: AtomicBool::new(false),
            watermark: AtomicUsize::new(NONE),
            above: AtomicBool::new(false),
        }
    }

    pub fn set(&self, soft: Option<usize>, hard: Option<usize>) {
        self.soft.store(soft.unwrap_or(NONE), Ordering::Relaxed);
        self.hard.store(hard.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub fn soft(&self) -> Option<usize> {
        Some(self.soft.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    pub fn hard(&self) -> Option<usize> {
        Some(self.hard.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    /// From which footprint on somebody wants to be told.
    pub fn set_watermark(&self, bytes: usize) {
        self.watermark.store(bytes, Ordering::Relaxed);
        self.above.store(false, Ordering::Relaxed);
    }

    /// Notes a footprint.
    pub(super) fn note(&self, footprint: usize) {
        if footprint > self.watermark.load(Ordering::Relaxed) && !self.above.load(Ordering::Relaxed) {
            self.above.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the watermark was passed since it was set.
    pub fn is_above_watermark(&self) -> bool {
        self.above.load(Ordering::Relaxed)
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
    /// Tells whether `more` bytes may come into use; gives free memory back first where the hard limit would be
    /// passed. That the soft one would be is only noted: who relieves the heap does so by steps, not at each call.
    pub(super) fn fits_limits(&self, os: &O, more: usize) -> bool {
        let (soft, hard) =
            (self.limits.soft.load(Ordering::Relaxed), self.limits.hard.load(Ordering::Relaxed));
        if soft.min(hard) == NONE || !self.would_pass(soft.min(hard), more) {
            return true;
        }
        if self.would_pass(hard, more) {
            self.release(os, 0, Ticks(0));
        }
        if self.would_pass(soft, more) {
            self.limits.passed.store(true, Ordering::Relaxed);
        }
        !self.would_pass(hard, more)
    }

    fn would_pass(&self, limit: usize, more: usize) -> bool {
        self.footprint().saturating_add(more) > limit
    }
}
