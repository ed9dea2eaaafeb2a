//! The places of this layer's numbers, for readers outside the process (docs/design/window.md).

use super::Upkeep;
use super::alone::Alone;
use super::thread::Thread;
use super::tick::Schedule;
use crate::base::place::Places;
use crate::os::Os;
use core::mem::offset_of;

impl<O: Os> Upkeep<O> {
    /// Adds the places of an upkeep that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let schedule = at + offset_of!(Self, schedule);
        let list = Thread::<O>::places(list, at + offset_of!(Self, thread));
        list.one("upkeep.waits", 1, at + offset_of!(Self, alone) + Alone::WAITS)
            .one("upkeep.ticks", 8, schedule + offset_of!(Schedule, count))
            .one("upkeep.huge_stall", 8, schedule + offset_of!(Schedule, huge_stall))
            .one("upkeep.fences_refused", 8, at + offset_of!(Self, fences_refused))
            .one("upkeep.given_back", 8, at + offset_of!(Self, given_back))
    }
}
