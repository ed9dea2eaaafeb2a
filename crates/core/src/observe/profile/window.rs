//! The places of the profile's tables, for readers outside the process (docs/design/window.md).

use super::tally::{OfStack, PARTS, Record, Tally};
use super::{Profile, State};
use crate::base::place::Places;
use crate::base::stack::Stack;
use crate::base::sync::AtomicU32;
use crate::os::{Mutex, Os};
use crate::pages::Table;
use core::mem::offset_of;

impl<O: Os> Profile<O> {
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let list = Table::<Record>::places(list, "records", at + offset_of!(Self, records));
        let list = Table::<AtomicU32>::places(list, "record_heads", at + offset_of!(Self, record_heads));
        let list = Table::<OfStack>::places(list, "stacks", at + offset_of!(Self, stacks));
        let list = Table::<AtomicU32>::places(list, "stack_heads", at + offset_of!(Self, stack_heads))
            .one("profile.on", 1, at + offset_of!(Self, on))
            .one("profile.interval", 8, at + offset_of!(Self, interval));
        Self::places_of_entries(Self::places_of_state(list, at + offset_of!(Self, state)))
    }

    const fn places_of_state(list: Places, lock: usize) -> Places {
        let state = lock + Mutex::<State, O>::VALUE;
        list.one("profile.lock", 4, lock + Mutex::<State, O>::STATE)
            .one("profile.records", 4, state + offset_of!(State, records))
            .one("profile.stacks", 4, state + offset_of!(State, stacks))
            .one("profile.births", 8, state + offset_of!(State, births))
            .one("profile.live", 8, state + offset_of!(State, live))
            .one("profile.dropped", 8, state + offset_of!(State, dropped))
            .one("profile.raised", 4, state + offset_of!(State, raised))
            .one("profile.peaks", 8, state + offset_of!(State, peaks))
    }

    /// How an entry of either table is laid out.
    const fn places_of_entries(list: Places) -> Places {
        let (allocated, freed) = (offset_of!(OfStack, allocated), offset_of!(OfStack, freed));
        list.constant("record.entry_bytes", size_of::<Record>())
            .constant("record.address", offset_of!(Record, address))
            .constant("record.bytes", offset_of!(Record, bytes))
            .constant("record.weight", offset_of!(Record, weight))
            .constant("record.parts", offset_of!(Record, parts))
            .constant("record.birth", offset_of!(Record, birth))
            .constant("record.heap", offset_of!(Record, heap))
            .constant("record.thread", offset_of!(Record, thread))
            .constant("record.stack", offset_of!(Record, stack))
            .constant("stack.entry_bytes", size_of::<OfStack>())
            .constant("stack.frames", offset_of!(OfStack, stack) + Stack::FRAMES)
            .constant("stack.depth", offset_of!(OfStack, stack) + Stack::DEPTH)
            .constant("stack.allocated_parts", allocated + offset_of!(Tally, parts))
            .constant("stack.allocated_bytes", allocated + offset_of!(Tally, bytes))
            .constant("stack.freed_parts", freed + offset_of!(Tally, parts))
            .constant("stack.freed_bytes", freed + offset_of!(Tally, bytes))
            .constant("stack.peak_parts", offset_of!(OfStack, peak) + offset_of!(Tally, parts))
            .constant("stack.peak_bytes", offset_of!(OfStack, peak) + offset_of!(Tally, bytes))
            .constant("stack.peak_number", offset_of!(OfStack, peak_number))
            .constant("stack.parts_of_one", PARTS as usize)
    }
}
