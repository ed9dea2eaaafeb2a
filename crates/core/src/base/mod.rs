//! Shared by all layers and owned by none: text, atomics, hints, checks of the caller's behaviour.
//!
//! Owns no state; promises no allocation and no system call of its own; every layer may call it; sits on
//! nothing.

pub mod ceilings;
pub mod chance;
pub mod fault;
pub mod locks;
#[cfg(test)]
pub mod memory;
pub mod place;
pub mod relaxed;
pub mod stack;
pub mod sync;
pub mod text;
#[cfg(not(loom))]
pub mod ticks;

/// The page size that structures are laid out for; the system's may be larger.
pub const PAGE_BYTES: usize = 4096;

/// Memory that a block is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fresh {
    /// 0 where there is none.
    pub address: usize,
    /// It is known to read as zeros.
    pub zeroed: bool,
}

impl Fresh {
    pub const NONE: Fresh = Fresh { address: 0, zeroed: false };
}

#[inline(always)]
pub const fn round_up(value: usize, to: usize) -> usize {
    (value + to - 1) & !(to - 1)
}

/// A branch that is rare: the compiler lays the other one out straight.
#[cold]
#[inline(always)]
pub fn rare() {}
