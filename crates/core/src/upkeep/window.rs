//! Where this layer's numbers lie, for who reads them from outside (docs/design/window.md).

use super::Upkeep;
use super::tick::Ticks;
use crate::base::place::Places;
use crate::os::Os;
use core::mem::offset_of;

impl<O: Os> Upkeep<O> {
    /// Adds the places of an upkeep that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let ticks = at + offset_of!(Self, ticks);
        list.one("upkeep.ticks", 8, ticks + offset_of!(Ticks, count))
            .one("upkeep.huge_stall", 8, ticks + offset_of!(Ticks, huge_stall))
            .one("upkeep.fences_refused", 8, at + offset_of!(Self, fences_refused))
            .one("upkeep.given_back", 8, at + offset_of!(Self, given_back))
    }
}
