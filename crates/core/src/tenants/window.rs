//! The places of this layer's numbers, for readers outside the process (docs/design/window.md).

use super::{DRAINING, LIVE, Rooms, Tenant, Tenants};
use crate::base::place::Places;
use crate::os::{Mutex, Os};
use crate::pages::Table;
use core::mem::offset_of;

impl<O: Os> Tenants<O> {
    /// Adds the places of tenants that lie so far in the heap. Offsets in an entry are constants, named after what lies there.
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let list = Table::<Tenant<O>>::places(list, "tenants", at + offset_of!(Self, table));
        let list = Table::<super::Lists>::places(list, "tenant_lists", at + offset_of!(Self, lists));
        let list = Table::<super::Slot<O>>::places(list, "tenant_slots", at + offset_of!(Self, slots));
        let rooms = offset_of!(Tenant<O>, rooms) + Mutex::<Rooms, O>::VALUE;
        list.one("tenants.count", 4, at + offset_of!(Self, count))
            .constant("tenants.is_live", LIVE as usize)
            .constant("tenants.drains", DRAINING as usize)
            .constant("tenant.entry_bytes", size_of::<Tenant<O>>())
            .constant("tenant.id", offset_of!(Tenant<O>, id))
            .constant("tenant.state", offset_of!(Tenant<O>, state))
            .constant("tenant.bytes", offset_of!(Tenant<O>, bytes))
            .constant("tenant.peak", offset_of!(Tenant<O>, peak))
            .constant("tenant.limit", offset_of!(Tenant<O>, limit))
            .constant("tenant.refused", offset_of!(Tenant<O>, refused))
            .constant("tenant.late", offset_of!(Tenant<O>, late))
            .constant("tenant.name", offset_of!(Tenant<O>, name))
            .constant("tenant.small_blocks", rooms + offset_of!(Rooms, live_blocks))
            .constant("tenant.small_bytes", rooms + offset_of!(Rooms, live_bytes))
            .constant("tenant.large_blocks", rooms + offset_of!(Rooms, large_blocks))
            .constant("tenant.large_bytes", rooms + offset_of!(Rooms, large_bytes))
    }
}
