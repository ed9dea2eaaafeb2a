//! The janitor's time: points of its clock, and how many ticks lie between two of them.

use super::relaxed::Number;
use super::sync::{AtomicU32, Ordering};
use core::ops::Mul;

/// A point of the janitor's clock, which wraps. All zero is before any tick that a heap sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Tick(pub u32);

/// A number of ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Ticks(pub u32);

impl Tick {
    #[inline(always)]
    pub fn before(self, ticks: Ticks) -> Tick {
        Tick(self.0.wrapping_sub(ticks.0))
    }

    #[inline(always)]
    pub fn after(self, ticks: Ticks) -> Tick {
        Tick(self.0.wrapping_add(ticks.0))
    }

    /// The ticks that passed since an earlier one.
    #[inline(always)]
    pub fn since(self, earlier: Tick) -> Ticks {
        Ticks(self.0.wrapping_sub(earlier.0))
    }

    /// Whether this is not before another.
    #[inline(always)]
    pub fn is_since(self, start: Tick) -> bool {
        self.0.wrapping_sub(start.0) as i32 >= 0
    }
}

impl Mul<u32> for Ticks {
    type Output = Ticks;

    #[inline(always)]
    fn mul(self, factor: u32) -> Ticks {
        Ticks(self.0 * factor)
    }
}

impl Number for Tick {
    type Cell = AtomicTick;

    #[inline(always)]
    fn load(cell: &AtomicTick) -> Self {
        cell.load()
    }

    #[inline(always)]
    fn store(self, cell: &AtomicTick) {
        cell.store(self);
    }
}

/// A tick that threads read while another changes it. Relaxed: it says nothing about other memory.
#[repr(transparent)]
pub struct AtomicTick(AtomicU32);

impl AtomicTick {
    pub const fn new(tick: Tick) -> Self {
        AtomicTick(AtomicU32::new(tick.0))
    }

    #[inline(always)]
    pub fn load(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub fn store(&self, tick: Tick) {
        self.0.store(tick.0, Ordering::Relaxed);
    }

    /// Goes on by some ticks; returns the tick that it is then.
    #[inline(always)]
    pub fn advance(&self, ticks: Ticks) -> Tick {
        Tick(self.0.fetch_add(ticks.0, Ordering::Relaxed)).after(ticks)
    }
}
