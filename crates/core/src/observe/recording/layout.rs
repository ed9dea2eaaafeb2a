//! The memory that a recorded process and the tool share: a header, a ring for each CPU, and the slots of the rings.
//!
//! Compiled into the core, the interposer's library and the tool, from this one file. Everything in it is an atomic or
//! constant once the process runs.

use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u64 = u64::from_le_bytes(*b"VCMRECR2");
/// `PID/DESCRIPTOR/INODE`: the place where the tool holds the memory.
pub const VARIABLE: &str = "VCMALLOC_RECORDER";
/// The time-stamp counter, where the kernel trusts it; else CLOCK_MONOTONIC.
pub const COUNTER: u32 = 1;
/// Longer names are cut, as the kernel does.
pub const NAME_BYTES: usize = 16;
/// Header and rings lie before the slots, on pages of their own.
pub const PAGE: usize = 4096;

#[repr(C, align(128))]
pub struct Header {
    /// Written last by the tool.
    pub magic: AtomicU64,
    /// One for each CPU, and behind them one for whoever cannot have that of its CPU for itself.
    pub rings: u32,
    /// How many of them are a CPU's.
    pub cpus: u32,
    /// In each ring; a power of two.
    pub slots: u32,
    pub clock: u32,
    /// One in so many addresses is recorded.
    pub sample: u32,
    /// The process that is recorded, 0 until it is known.
    pub process: AtomicU32,
    /// How often it loaded the library: once more after each exec.
    pub images: AtomicU32,
    /// The name of the program to be recorded, where the first process is not the one; padded with zeros.
    pub name: [u8; NAME_BYTES],
    /// Not 0 while events are wanted.
    pub recording: AtomicU32,
    /// Grows while the tool lives.
    pub rounds: AtomicU64,
    /// How often a thread waited for room, and for how long together.
    pub waits: AtomicU64,
    pub waited_nanoseconds: AtomicU64,
    /// Of a recording that an order began: it ends with the first event behind this stamp. A child of fork finds 0.
    pub until: AtomicU64,
}

/// Places are counted from 0 and never start anew; a place's slot is its remainder.
#[repr(C, align(128))]
pub struct Ring {
    /// The next place to be taken: of a CPU's ring by restartable sequences, of the last ring by compare-and-swap.
    pub head: AtomicU64,
    /// Events for which there was no room.
    pub lost: AtomicU64,
    _apart: [u64; 14],
    /// The place that the tool reads next. Only the tool writes it.
    pub tail: AtomicU64,
    /// Places before this one were taken by a program that exec replaced: nobody comes back to fill the empty ones.
    pub orphaned: AtomicU64,
}

/// One event. It is whole when `mark` is that of its place.
#[repr(C, align(32))]
pub struct Slot {
    pub stamp: AtomicU64,
    /// The kind in the highest byte, the address below.
    pub what: AtomicU64,
    /// log2 of the alignment in the highest byte, the bytes below.
    pub size: AtomicU64,
    pub thread: AtomicU32,
    pub mark: AtomicU32,
}

/// Rings are on the page behind the header, slots on the page behind the rings.
pub const fn slots_at(rings: u32) -> usize {
    (PAGE + rings as usize * size_of::<Ring>()).next_multiple_of(PAGE)
}

pub const fn bytes(rings: u32, slots: u32) -> usize {
    slots_at(rings) + rings as usize * slots as usize * size_of::<Slot>()
}

/// Memory begins as zeros, so place 0 must not have the mark 0.
pub const fn mark(place: u64) -> u32 {
    (place as u32).wrapping_add(1)
}

pub const LOW: u64 = (1 << 56) - 1;

/// The kind of an event. A realloc is two: the end of a block before the allocator is asked, a beginning behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Malloc = 1,
    Calloc = 2,
    Aligned = 3,
    Free = 4,
    /// The block at this address goes into a realloc.
    ReallocFrom = 5,
    /// And this came out of it.
    ReallocTo = 6,
    /// The same, at an address that is not sampled.
    ReallocAway = 7,
    /// It stays where it is.
    ReallocFailed = 8,
    /// A thread's first event.
    Start = 9,
    /// Its name in address and size.
    End = 10,
    /// The program begins, after exec anew.
    Image = 11,
}

impl Kind {
    pub fn of(what: u64) -> Option<Kind> {
        const ALL: [Kind; 11] = [
            Kind::Malloc,
            Kind::Calloc,
            Kind::Aligned,
            Kind::Free,
            Kind::ReallocFrom,
            Kind::ReallocTo,
            Kind::ReallocAway,
            Kind::ReallocFailed,
            Kind::Start,
            Kind::End,
            Kind::Image,
        ];
        ALL.get(((what >> 56) as usize).wrapping_sub(1)).copied()
    }
}

/// Whether an address is one of those that are recorded: all events of a block, or none.
pub const fn is_sampled(address: u64, one_in: u32) -> bool {
    // Fibonacci hashing: the upper half of the product depends on all bits of the address.
    one_in <= 1 || ((address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(one_in as u64)
}
