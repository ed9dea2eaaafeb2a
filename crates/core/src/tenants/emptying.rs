//! A heap that is emptied: its spans are taken out of its lists and closed, and its entries go.
//!
//! Spans go in portions, so that a thread which wants the lock meanwhile has it. A thread that opens a span for the heap, or
//! gives pages of one back, comes back first.

use super::{DRAINING, ENDING, HeapId, Rooms, Tenant, Tenants};
use crate::base::sync::{Ordering, pause};
use crate::central::Store;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};
use crate::pages::{OPENED, SpanId};

/// Spans that go under one holding of the lock.
pub(super) const PORTION: usize = 64;

impl<O: Os> Tenants<O> {
    /// Ends a heap that gives no more blocks and whose last one has come back.
    pub(super) fn finish_if_drained(&self, store: &Store<O>, tenant: &Tenant<O>, id: HeapId) {
        let rooms = tenant.rooms.lock();
        // Under the lock: an entry is another heap's only after its rooms were made anew.
        let is_over = rooms.is_empty()
            && rooms.opening == 0
            && tenant.cache.load(Ordering::Relaxed) == 0
            && tenant.generation.load(Ordering::Relaxed) == id.generation();
        let state = &tenant.state;
        let is_last =
            is_over && state.compare_exchange(DRAINING, ENDING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        drop(rooms);
        if is_last {
            self.finish(store, tenant, id.number());
        }
    }

    pub(super) fn finish(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32) {
        self.empty(store, tenant, number);
        self.leave(tenant, number);
    }

    /// Gives the entries of an empty heap back.
    pub(super) fn leave(&self, tenant: &Tenant<O>, number: u32) {
        let mut rooms = tenant.rooms.lock();
        let lists = rooms.lists;
        *rooms = Rooms::EMPTY;
        drop(rooms);
        self.unmake_lists(lists.into_iter());
        self.unmake(number);
    }

    /// The rooms of a heap that ends, when no other thread has a span of it away.
    pub(super) fn alone<'a>(&self, tenant: &'a Tenant<O>) -> Guard<'a, Rooms, O> {
        loop {
            let rooms = tenant.rooms.lock();
            let has_any_away =
                |class| self.spans_seen(&rooms, class).is_some_and(|spans| spans.has_any_away());
            if rooms.opening == 0 && !SizeClass::all().any(has_any_away) {
                return rooms;
            }
            drop(rooms);
            pause();
        }
    }

    /// Takes up to `PORTION` spans out of the lists of a heap.
    pub(super) fn take_spans(
        &self,
        store: &Store<O>,
        rooms: &mut Rooms,
        out: &mut [SpanId; PORTION],
    ) -> usize {
        let mut places = out.iter_mut();
        for class in SizeClass::all() {
            let Some(spans) = self.spans(rooms, class) else { continue };
            while !places.as_slice().is_empty()
                && let Some(id) = spans.take_span(&store.pages)
            {
                places.by_ref().take(1).for_each(|place| *place = id);
            }
        }
        while !places.as_slice().is_empty() && rooms.large != SpanId::NONE {
            let id = rooms.large;
            rooms.unlink(&store.pages, id);
            store.pages.span(id).list.set(OPENED);
            places.by_ref().take(1).for_each(|place| *place = id);
        }
        PORTION - places.len()
    }

    /// Gives all spans of a heap back, whatever of them is in use.
    pub(super) fn empty(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32) {
        loop {
            let (mut rooms, mut ids) = (self.alone(tenant), [SpanId::NONE; PORTION]);
            let count = self.take_spans(store, &mut rooms, &mut ids);
            let ids = ids.get(..count).unwrap_or_default();
            let mut bytes = 0;
            for span in ids.iter().map(|id| store.pages.span(*id)) {
                bytes += span.units.get() as usize * UNIT_BYTES;
                if span.class().is_small() {
                    store.pages.forget_allocated(span.start.get(), span.units.get());
                }
            }
            // Before the lock is left: a late free finds that nobody has such a block.
            store.pages.close_spans(ids, store.pages.clock.load());
            self.discharge(number, bytes);
            if count < PORTION {
                (rooms.live_blocks, rooms.live_bytes) = (0, 0);
                return;
            }
        }
    }
}
