//! One page of shared atomics, by which the load program tells the watcher its state without a system call.

use super::shared::{self, Shared};
use anyhow::{Result, ensure};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The phases of the load program, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Starting,
    /// Allocating, or allocating and freeing.
    Loading,
    /// Only freeing.
    Releasing,
    /// Nobody calls malloc any more, whatever happens.
    Idle,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Starting, Self::Loading, Self::Releasing, Self::Idle];

    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Loading => "loading",
            Self::Releasing => "releasing",
            Self::Idle => "idle",
        }
    }
}

const LINES: usize = 64;
const NAME_BYTES: usize = 256;

/// A counter with a cache line of its own.
#[repr(C, align(64))]
struct Line(AtomicI64);

/// Lives in shared memory; all zero is a new one.
#[repr(C)]
pub struct Board {
    phase: AtomicU32,
    /// When each phase began, in [`now`]'s nanoseconds; 0: not yet.
    began: [AtomicU64; 4],
    /// Requested bytes that are live, in parts: threads share a part only if there are more than [`LINES`].
    live: [Line; LINES],
    /// At the stop: bytes in 4 KiB pages that hold a live block, and bytes that the allocator says the blocks
    /// have.
    pub page_bytes: AtomicU64,
    pub usable_bytes: AtomicU64,
    pub live_blocks: AtomicU64,
    malloc_object: [AtomicU8; NAME_BYTES],
}

impl Board {
    pub fn create() -> Result<(&'static Self, Shared)> {
        let memory = Shared::create(size_of::<Self>())?;
        Ok((Self::at(memory.bytes)?, memory))
    }

    pub fn inherited(number: RawFd) -> Result<&'static Self> {
        Self::at(shared::inherited(number)?)
    }

    fn at(memory: &'static [u8]) -> Result<&'static Self> {
        ensure!(memory.len() >= size_of::<Self>(), "a board of {} bytes is too small", memory.len());
        // SAFETY: page-aligned, long enough, mapped for ever, and any bytes are valid atomics.
        Ok(unsafe { &*memory.as_ptr().cast() })
    }

    pub fn enter(&self, phase: Phase) {
        self.began[phase as usize].store(now(), Ordering::Relaxed);
        // Release, pairs with the Acquire in `phase`: a thread that sees a phase sees when it began and what
        // was counted before.
        self.phase.store(phase as u32, Ordering::Release);
    }

    pub fn phase(&self) -> Phase {
        Phase::ALL[self.phase.load(Ordering::Acquire) as usize % Phase::ALL.len()]
    }

    /// When a phase began; none if it has not.
    pub fn began(&self, phase: Phase) -> Option<u64> {
        Some(self.began[phase as usize].load(Ordering::Acquire)).filter(|&time| time != 0)
    }

    /// The counter of a thread.
    pub fn live_counter(&self, thread: usize) -> &AtomicI64 {
        &self.live[thread % LINES].0
    }

    /// Right when no thread is between its call and its count; else off by a few blocks.
    pub fn live_bytes(&self) -> u64 {
        let sum: i64 = self.live.iter().map(|line| line.0.load(Ordering::Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }

    pub fn set_malloc_object(&self, name: &str) {
        for (place, byte) in self.malloc_object.iter().zip(name.bytes().take(NAME_BYTES - 1)) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    pub fn malloc_object(&self) -> String {
        let bytes = self.malloc_object.iter().map(|byte| byte.load(Ordering::Relaxed));
        String::from_utf8_lossy(&bytes.take_while(|&byte| byte != 0).collect::<Vec<_>>()).into_owned()
    }
}

/// Nanoseconds of a clock that all processes share.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives here; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let (board, memory) = Board::create().unwrap();
        let other = Board::inherited(memory.number()).unwrap();
        assert_eq!((other.phase(), other.began(Phase::Loading)), (Phase::Starting, None));
        board.enter(Phase::Loading);
        board.live_counter(3).fetch_add(100, Ordering::Relaxed);
        // Another thread frees what the first allocated: only the sum means something.
        board.live_counter(4).fetch_sub(40, Ordering::Relaxed);
        board.set_malloc_object("/lib/libc.so.6");
        assert_eq!((other.phase(), other.live_bytes()), (Phase::Loading, 60));
        assert!(other.began(Phase::Loading).is_some());
        assert_eq!(other.malloc_object(), "/lib/libc.so.6");
    }
}
