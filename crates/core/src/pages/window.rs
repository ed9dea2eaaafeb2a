//! The places of this layer's numbers, for readers outside the process (docs/design/window.md).

use super::delayed::DelayedFrees;
use super::kept::Kept;
use super::runs::{Group, HugePage, Runs};
use super::{HUGE_PAGE_BYTES, LargeStats, Limits, Pages, Span, State, Table, TenantSpans, Withheld};
use crate::base::ceilings::DELAYED_FREES;
use crate::base::place::{Places, Within};
use crate::base::relaxed::RelaxedCell;
use crate::base::sync::{AtomicU8, AtomicU32};
use crate::class::UNIT_BYTES;
use crate::os::{Mutex, Os};
use core::mem::offset_of;

impl<O: Os> Pages<O> {
    /// Adds the places of a back that lies so far in the heap.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let list = Self::places_of_state(list, at + offset_of!(Self, state));
        let (limits, kept) = (at + offset_of!(Self, limits), at + offset_of!(Self, kept));
        let list = list
            .one("pages.base", 8, at + offset_of!(Self, base))
            .one("pages.grown", 8, at + offset_of!(Self, grown))
            .one("pages.released", 8, at + offset_of!(Self, released))
            .one("pages.huge_blocks", 8, at + offset_of!(Self, huge_backed))
            .one("pages.clock", 4, at + offset_of!(Self, clock))
            .one("pages.releasing_lock", 4, at + offset_of!(Self, releasing) + Mutex::<Withheld, O>::STATE)
            .one("limits.soft", 8, limits + offset_of!(Limits, soft))
            .one("limits.hard", 8, limits + offset_of!(Limits, hard))
            .one("large.kept_bytes", 8, kept + offset_of!(Kept, bytes))
            // 0: none.
            .many("large.kept", 8, kept + offset_of!(Kept, frees) + DelayedFrees::PLACES, (8, DELAYED_FREES))
            .constant("unit.bytes", UNIT_BYTES)
            .constant("block.bytes", HUGE_PAGE_BYTES)
            .constant("block.entry_bytes", size_of::<HugePage>())
            // 0: not ours.
            .inside(Within::Block, "block.huge", 1, offset_of!(HugePage, huge));
        let list = Table::<AtomicU8>::places(list, "classes", at + offset_of!(Self, classes));
        let list = Table::<AtomicU32>::places(list, "owners", at + offset_of!(Self, owners));
        let list = Table::<AtomicU32>::places(list, "allocated", at + offset_of!(Self, allocated));
        let list = Table::<AtomicU8>::places(list, "marks", at + offset_of!(Self, marks));
        let list = Table::<Span>::places(list, "spans", at + offset_of!(Self, spans));
        let list = Table::<RelaxedCell<u8>>::places(list, "untidy", at + offset_of!(Self, candidates));
        let list = Table::<HugePage>::places(list, "blocks", at + offset_of!(Self, huge.entries));
        let list = Table::<Group>::places(list, "groups", at + offset_of!(Self, huge.groups));
        Table::<u128>::places(list, "left_out", at + offset_of!(Self, left_out))
    }

    const fn places_of_state(list: Places, lock: usize) -> Places {
        let state = lock + Mutex::<State, O>::VALUE;
        let (runs, large) = (state + offset_of!(State, runs), state + offset_of!(State, large));
        list.one("pages.lock", 4, lock + Mutex::<State, O>::STATE)
            .one("pages.spans_open", 4, state + offset_of!(State, spans_open))
            .one("pages.blocks", 4, runs + offset_of!(Runs, huge))
            .one("pages.units_used", 8, runs + offset_of!(Runs, used))
            .one("pages.units_dirty", 8, runs + offset_of!(Runs, dirty_free))
            .one("pages.units_lost", 8, runs + offset_of!(Runs, lost))
            .one("pages.units_came_back", 8, runs + offset_of!(Runs, came_back))
            .one("large.blocks", 8, large + offset_of!(LargeStats, blocks))
            .one("large.bytes", 8, large + offset_of!(LargeStats, bytes))
            .one("large.requested", 8, large + offset_of!(LargeStats, requested))
            .one("tenants.spans", 8, state + offset_of!(State, tenants) + offset_of!(TenantSpans, spans))
            .one("tenants.bytes", 8, state + offset_of!(State, tenants) + offset_of!(TenantSpans, bytes))
    }
}
