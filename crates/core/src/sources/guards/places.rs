//! The places of the slots of guarded samples in their arena, and the slot that an address is in.

use super::{Guards, Slot, WIDE_BYTES};
use crate::base::round_up;
use crate::base::sync::Ordering;
use crate::os::Os;

impl<O: Os> Guards<O> {
    /// Tells whether an address lies in the arena. Reads nothing there.
    #[inline]
    pub fn owns(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire);
        base != 0 && address.wrapping_sub(base) < self.bytes.load(Ordering::Relaxed)
    }

    /// The largest block and alignment that can be guarded.
    pub fn most_bytes(os: &O) -> usize {
        os.page_bytes()
    }

    pub(in crate::sources) fn page_bytes(&self) -> usize {
        self.page.load(Ordering::Relaxed).max(1)
    }

    pub(super) fn page_of(&self, number: u32) -> usize {
        self.base.load(Ordering::Relaxed) + (2 * number as usize + 1) * self.page_bytes()
    }

    /// The start of the wide slots.
    pub(super) fn first_wide(&self) -> usize {
        self.page_of(self.slot_count.load(Ordering::Relaxed))
    }

    /// End of the wide slot with this number.
    pub(super) fn end_of_wide(&self, number: u32) -> usize {
        let index = number.wrapping_sub(self.slot_count.load(Ordering::Relaxed)) as usize;
        self.first_wide() + index * (WIDE_BYTES + self.page_bytes()) + WIDE_BYTES
    }

    /// The number of the wide slot that an address of the arena lies in, or in the guard behind it.
    pub(in crate::sources) fn wide_number(&self, address: usize) -> Option<usize> {
        let index = address.checked_sub(self.first_wide())?.checked_div(WIDE_BYTES + self.page_bytes())?;
        Some(self.slot_count.load(Ordering::Relaxed) as usize + index)
    }

    /// The number of the slot whose page an address of the arena lies in; none for a guard.
    pub(in crate::sources) fn number_of(&self, address: usize) -> Option<usize> {
        let index = self.page_index(address);
        self.wide_number(address).or((index % 2 == 1).then_some(index / 2))
    }

    /// Start and bytes of the pages that a live block has open.
    pub(in crate::sources) fn pages_of(&self, slot: &Slot) -> (usize, usize) {
        let page = self.page_bytes();
        let start = slot.address & !(page - 1);
        (start, round_up(slot.address + slot.bytes.max(1), page) - start)
    }

    /// Pages from the start of the arena: odd ones belong to slots, before the wide ones.
    pub(in crate::sources) fn page_index(&self, address: usize) -> usize {
        (address - self.base.load(Ordering::Relaxed)) / self.page_bytes()
    }
}
