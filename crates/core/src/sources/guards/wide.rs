//! The first large blocks of a process, each at the end of a slot of its own.

use super::{Guards, WIDE_BYTES, WIDE_SLOTS};
use crate::base::stack::Trace;
use crate::base::sync::Ordering;
use crate::os::Os;

/// A block is large from here on. A short-lived process hardly has one, so it does not pay for the arena.
const WIDE_FROM: usize = 128 << 10;

impl<O: Os> Guards<O> {
    /// Whether a block of so many bytes may become one of the first large ones.
    #[inline]
    pub fn may_be_first(&self, bytes: usize) -> bool {
        (WIDE_FROM..=WIDE_BYTES).contains(&bytes) && self.wide.load(Ordering::Relaxed) < WIDE_SLOTS
    }

    /// A guarded block of `bytes` at a multiple of `align`, both at most a page; none where the system
    /// refuses or all slots hold live blocks.
    pub fn allocate(&self, os: &O, bytes: usize, align: usize, trace: Trace) -> Option<usize> {
        if bytes > self.page_bytes() {
            return self.allocate_wide(os, bytes, align, trace);
        }
        self.allocate_page(os, bytes, align, trace)
    }

    /// One of the first large blocks, at the end of a wide slot, for which nobody waited before.
    fn allocate_wide(&self, os: &O, bytes: usize, align: usize, trace: Trace) -> Option<usize> {
        let index = self.wide.fetch_add(1, Ordering::Relaxed);
        let number = self.slot_count.load(Ordering::Relaxed) + index;
        if index >= WIDE_SLOTS || !self.slots.ensure(os, number as usize + 1) {
            return None;
        }
        let page_bytes = self.page_bytes();
        let end = self.end_of_wide(number);
        let address = (end - bytes) & !(align - 1);
        let page = address & !(page_bytes - 1);
        let mut state = self.state.lock();
        if !os.commit(page, end - page) {
            return None;
        }
        state.samples += 1;
        state.requested += bytes as u64;
        state.open += (end - page) as u64;
        self.slot_mut(&state, number).open(page, end - page, address, bytes, trace);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(address)
    }
}
