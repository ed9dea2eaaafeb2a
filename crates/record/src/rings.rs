//! Header, rings and slots, wherever they are mapped.

use crate::layout::{self, Header, PAGE, Ring, Slot};

/// A mapping of them that its owner ends.
pub(crate) struct Rings(pub *mut Header);

impl Rings {
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: mapped as long as its owner lives; all that changes is an atomic.
        unsafe { &*self.0 }
    }

    pub(crate) fn ring(&self, index: u32) -> &Ring {
        // SAFETY: the rings lie on the page behind the header.
        unsafe { &*self.0.byte_add(PAGE).cast::<Ring>().add(index as usize) }
    }

    pub(crate) fn slot(&self, ring: u32, place: u64) -> &Slot {
        let slots = self.header().slots;
        let index = ring as usize * slots as usize + (place as usize & (slots as usize - 1));
        // SAFETY: within the slots, by the mask.
        unsafe { &*self.0.byte_add(layout::slots_at(self.header().rings)).cast::<Slot>().add(index) }
    }

    /// The bytes of slots that are neighbours, of a mirror.
    // The memory is the mapping's, not this value's, and the one who copies is the only one who looks.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn slots_of(&self, ring: u32, place: u64, count: usize) -> &mut [u8] {
        let first = (&raw const *self.slot(ring, place)).cast_mut().cast::<u8>();
        // SAFETY: the caller keeps within the ring. A mirror is this value's alone, and nobody looks at its slots meanwhile.
        unsafe { std::slice::from_raw_parts_mut(first, count * size_of::<Slot>()) }
    }
}
