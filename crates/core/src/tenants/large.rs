//! Large blocks of a heap: runs of units, each a span that the heap lists.

use super::{HeapId, Refusal, Rooms, Tenant, Tenants};
use crate::base::Fresh;
use crate::base::fault::{Fault, Misuse};
use crate::central::Store;
use crate::class::{UNIT_BYTES, UNIT_SHIFT};
use crate::os::Os;
use crate::pages::{CLOSED, Pages, Place, SpanId};

/// Units for a request; none where the count does not fit.
fn units_for(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.max(1).checked_add(UNIT_BYTES - 1)? >> UNIT_SHIFT).ok()
}

impl<O: Os> Tenants<O> {
    /// A block above the classes.
    pub fn take_large(
        &self,
        store: &Store<O>,
        id: HeapId,
        bytes: usize,
        align: usize,
    ) -> Result<Fresh, Refusal> {
        let tenant = self.find_live(id)?;
        let units = units_for(bytes).ok_or(Refusal::Memory)?;
        let align = u32::try_from((align >> UNIT_SHIFT).max(1)).map_err(|_| Refusal::Memory)?;
        let mut rooms = tenant.rooms.lock();
        // Under the lock: a heap that ends takes it after it has said so.
        self.find_live(id)?;
        rooms.opening += 1;
        drop(rooms);
        let opened = self.open_large(store, tenant, id.number(), Place { align, ..Place::of(units) }, bytes);
        let mut rooms = tenant.rooms.lock();
        rooms.opening = rooms.opening.saturating_sub(1);
        let (span, zeroed) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                drop(rooms);
                self.finish_if_drained(store, tenant, id);
                return Err(refusal);
            }
        };
        // A heap that ends meanwhile waits, and ends the block with the others.
        rooms.link(&store.pages, span);
        drop(rooms);
        store.pages.prefault(&store.os);
        Ok(Fresh { address: store.pages.address_of(store.pages.span(span).start.get()), zeroed })
    }

    fn open_large(
        &self,
        store: &Store<O>,
        tenant: &Tenant<O>,
        number: u32,
        place: Place,
        bytes: usize,
    ) -> Result<(SpanId, bool), Refusal> {
        let charged = place.units as usize * UNIT_BYTES;
        self.charge(number, charged)?;
        let opened = store.pages.open_large_of(&store.os, place, bytes, tenant.as_owner(number));
        if opened.is_none() {
            self.discharge(number, charged);
        }
        opened.ok_or(Refusal::Memory)
    }

    pub(super) fn give_large(
        &self,
        store: &Store<O>,
        number: u32,
        rooms: &mut Rooms,
        id: SpanId,
        address: usize,
    ) -> Result<(), Misuse> {
        let span = store.pages.span(id);
        if store.pages.address_of(span.start.get()) != address {
            return Err(Misuse::at(Fault::InteriorPointer, address));
        }
        if span.list.get() == CLOSED {
            return Err(Misuse::at(Fault::DoubleFree, address));
        }
        let bytes = span.bytes();
        rooms.unlink(&store.pages, id);
        span.list.set(CLOSED);
        store.pages.close_spans(&[id], store.pages.clock.load());
        rooms.note_gone(&store.pages, bytes);
        self.discharge(number, bytes);
        Ok(())
    }

    /// Gives a large block another length where it lies; false where that cannot be.
    pub fn resize_in_place(&self, store: &Store<O>, address: usize, bytes: usize) -> bool {
        let pages = &store.pages;
        let Some((id, number)) = pages.tenant_of(address) else { return false };
        let units = units_for(pages.span(id).bytes_for(bytes));
        let (Some(tenant), Some(units)) = (self.tenant(number), units) else { return false };
        let mut rooms = tenant.rooms.lock();
        let is_its_own = pages.tenant_of(address) == Some((id, number))
            && pages.span(id).list.get() == 0
            && !tenant.is_over();
        let before = pages.span(id).units.get();
        let more = units.saturating_sub(before) as usize * UNIT_BYTES;
        if !is_its_own || more > 0 && (!tenant.is_live() || self.charge(number, more).is_err()) {
            return false;
        }
        // The heap does not end, nor goes the block to another one, before this thread comes back.
        rooms.opening += 1;
        drop(rooms);
        let is_done = pages.resize_large(&store.os, id, address, units, bytes);
        let mut rooms = tenant.rooms.lock();
        rooms.opening = rooms.opening.saturating_sub(1);
        let fewer = if is_done { before.saturating_sub(units) as usize * UNIT_BYTES } else { more };
        self.discharge(number, fewer);
        let more = if is_done { more } else { 0 };
        let fewer = if is_done { fewer } else { 0 };
        rooms.large_bytes = rooms.large_bytes.wrapping_add(more as u64).wrapping_sub(fewer as u64);
        drop(rooms);
        self.finish_if_drained(store, tenant, self.id_of(number));
        is_done
    }
}

impl Rooms {
    /// Puts the span of a large block first.
    pub(super) fn link<O: Os>(&mut self, pages: &Pages<O>, id: SpanId) {
        let span = pages.span(id);
        span.list.set(0);
        span.set_previous(SpanId::NONE);
        span.set_next(self.large);
        if self.large != SpanId::NONE {
            pages.span(self.large).set_previous(id);
        }
        self.large = id;
        self.large_blocks += 1;
        self.large_bytes += span.units.get() as u64 * UNIT_BYTES as u64;
    }

    pub(super) fn unlink<O: Os>(&mut self, pages: &Pages<O>, id: SpanId) {
        let span = pages.span(id);
        let (next, previous) = (span.next(), span.previous());
        if next != SpanId::NONE {
            pages.span(next).set_previous(previous);
        }
        if previous != SpanId::NONE {
            pages.span(previous).set_next(next);
        } else {
            self.large = next;
        }
        self.large_blocks -= 1;
        self.large_bytes -= span.units.get() as u64 * UNIT_BYTES as u64;
    }
}
