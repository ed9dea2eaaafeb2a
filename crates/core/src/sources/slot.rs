//! One guarded block: its place, who allocated and freed it, and the pattern around it.

use crate::base::fault::Fault;
use crate::base::stack::Trace;
use crate::base::sync::{AtomicU32, Ordering};

/// Never used; zero.
pub const UNUSED: u32 = 0;
pub const LIVE: u32 = 1;
pub const FREED: u32 = 2;

/// The byte that fills the rest of a block's page while the block is live.
const PATTERN: u8 = 0xA7;

/// One slot. Written under the lock of the guards, read without it when a fault is reported.
pub struct Slot {
    state: AtomicU32,
    /// The next one in the queue of freed slots.
    pub next: u32,
    pub address: usize,
    pub bytes: usize,
    pub allocated: Trace,
    pub freed: Trace,
}

impl Slot {
    pub fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Begins a block on a page that was just opened.
    pub fn open(&mut self, page: usize, page_bytes: usize, address: usize, bytes: usize, trace: Trace) {
        self.address = address;
        self.bytes = bytes;
        self.allocated = trace;
        let end = address + bytes;
        for (from, to) in [(page, address), (end, page + page_bytes)] {
            // SAFETY: both ranges are parts of the page, which is open and nobody else's yet.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(from).write_bytes(PATTERN, to - from) };
        }
        self.state.store(LIVE, Ordering::Release);
    }

    /// Ends the block.
    pub fn close(&mut self, trace: Trace) {
        self.freed = trace;
        self.state.store(FREED, Ordering::Release);
    }

    /// The byte nearest to the block that somebody wrote without owning it.
    pub fn damage(&self, page: usize, page_bytes: usize) -> Option<(Fault, usize)> {
        let end = self.address + self.bytes;
        // SAFETY: the page is open while the block is live, and both ranges are parts of it that nobody owns.
        let around = |from: usize, to: usize| unsafe {
            core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(from), to - from)
        };
        let (behind, before) = (around(end, page + page_bytes), around(page, self.address));
        // Most of the time nothing is: many bytes at a time, without a branch between.
        let is_whole = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte ^ PATTERN) == 0;
        if is_whole(behind) && is_whole(before) {
            return None;
        }
        let is_damaged = |byte: &u8| *byte != PATTERN;
        let overflow = behind.iter().position(is_damaged).map(|at| (Fault::Overflow, end + at));
        overflow.or_else(|| before.iter().rposition(is_damaged).map(|at| (Fault::Underflow, page + at)))
    }
}
