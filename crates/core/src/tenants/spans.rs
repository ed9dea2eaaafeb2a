//! Blocks of the classes from a heap's spans, under its lock, and back.

use super::waiting::Waiting;
use super::{DRAINING, ENDING, HeapId, Refusal, Rooms, Tenant, Tenants};
use crate::base::PAGE_BYTES;
use crate::base::fault::{Fault, Misuse};
use crate::base::sync::Ordering;
use crate::base::ticks::{Tick, Ticks};
use crate::central::{Store, locate, release_pages};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};
use crate::pages::{OPENED, Pages, Span, SpanId};
use core::cell::Cell;

/// From so many calls within a tick on a heap is busy.
const BUSY_CALLS: u32 = 1024;

/// The middle of one heap.
pub(super) struct Rented<'a, O: Os> {
    pub tenants: &'a Tenants<O>,
    pub store: &'a Store<O>,
    pub tenant: &'a Tenant<O>,
    pub id: HeapId,
    /// Why there was no block.
    pub refusal: Cell<Option<Refusal>>,
    /// The last single block reads as zeros.
    pub zeroed: Cell<bool>,
    /// Many calls came to the heap's lock.
    pub is_busy: Cell<bool>,
}

impl<O: Os> Tenants<O> {
    pub(super) fn rented<'a>(
        &'a self,
        store: &'a Store<O>,
        tenant: &'a Tenant<O>,
        id: HeapId,
    ) -> Rented<'a, O> {
        let (refusal, zeroed, is_busy) = (Cell::new(None), Cell::new(false), Cell::new(false));
        Rented { tenants: self, store, tenant, id, refusal, zeroed, is_busy }
    }

    fn open_span(
        &self,
        store: &Store<O>,
        tenant: &Tenant<O>,
        number: u32,
        class: SizeClass,
    ) -> Result<SpanId, Refusal> {
        let bytes = class.shape().span_units as usize * UNIT_BYTES;
        self.charge(number, bytes)?;
        let opened = store.pages.open_span_of(&store.os, class, tenant.as_owner(number));
        if opened.is_none() {
            self.discharge(number, bytes);
        }
        opened.ok_or(Refusal::Memory)
    }

    /// Gives a heap lists for a class.
    pub(super) fn add_lists(
        &self,
        store: &Store<O>,
        tenant: &Tenant<O>,
        number: u32,
        class: SizeClass,
    ) -> Result<(), Refusal> {
        let made = self.make_lists(&store.os, number);
        if made == 0 {
            return Err(Refusal::Memory);
        }
        let mut rooms = tenant.rooms.lock();
        // A heap that is emptied has others' spans to wait for.
        let is_over =
            (tenant.is_over() || tenant.state.load(Ordering::Acquire) == ENDING) && rooms.opening == 0;
        match rooms.lists.get_mut(class.index()) {
            Some(place) if *place == 0 && !is_over => *place = made,
            // Another thread was faster.
            _ => {
                drop(rooms);
                self.unmake_lists([made].into_iter());
            }
        }
        Ok(())
    }

    /// Fills `out` with blocks of a heap's spans, at least one where there is no reason against it.
    pub(super) fn take_from_spans(
        &self,
        rented: &Rented<'_, O>,
        class: SizeClass,
        out: &mut [usize],
    ) -> Result<usize, Refusal> {
        let Rented { store, tenant, id, .. } = *rented;
        loop {
            let mut rooms = tenant.rooms.lock();
            // Under the lock: a heap that ends takes it after it has said so.
            if let Err(refusal) = self.find_live(id) {
                drop(rooms);
                // This thread may have been away when the last block came back.
                self.finish_if_drained(store, tenant, id);
                return Err(refusal);
            }
            rented.note_call(&mut rooms);
            let Some(spans) = self.spans(&mut rooms, class) else {
                drop(rooms);
                self.add_lists(store, tenant, id.number(), class)?;
                continue;
            };
            let count = match &mut *out {
                [one] => {
                    let fresh = spans.take_one(&store.pages, class);
                    *one = fresh.address;
                    rented.zeroed.set(fresh.zeroed);
                    usize::from(fresh.address != 0)
                }
                several => spans.take(&store.pages, class, several).blocks,
            };
            if count > 0 {
                rooms.count(class, count as i64);
                return Ok(count);
            }
            spans.leave();
            rooms.opening += 1;
            drop(rooms);
            let opened = self.open_span(store, tenant, id.number(), class);
            let mut rooms = tenant.rooms.lock();
            // A child that a signal handler made meanwhile counts none.
            rooms.opening = rooms.opening.saturating_sub(1);
            // They are there as long as a thread is away.
            if let Some(spans) = self.spans(&mut rooms, class) {
                let after = spans.spans + usize::from(opened.is_ok());
                spans.arrive(&store.pages, class, opened.ok());
                // Blocks came back meanwhile, and it was closed at once.
                let closed = after - spans.spans;
                self.discharge(id.number(), closed * class.shape().span_units as usize * UNIT_BYTES);
            }
            drop(rooms);
            if let Err(refusal) = opened {
                self.finish_if_drained(store, tenant, id);
                return Err(refusal);
            }
        }
    }

    /// Puts blocks into a heap's spans; false where one of them does not lie there, or its span is on its way from another heap: then
    /// none is back.
    pub(super) fn put_into_spans(
        &self,
        rented: &Rented<'_, O>,
        class: SizeClass,
        blocks: &[usize],
        at: Tick,
    ) -> Result<bool, Misuse> {
        let (tenant, number) = (rented.tenant, rented.id.number());
        let mut rooms = tenant.rooms.lock();
        rented.note_call(&mut rooms);
        let is_its_own = |block: &usize| {
            let of = rented.store.pages.tenant_of(*block);
            of.is_some_and(|(id, owner)| owner == number && !is_on_its_way(rented.store.pages.span(id)))
        };
        let Some(spans) = self.spans(&mut rooms, class).filter(|_| blocks.iter().all(is_its_own)) else {
            return Ok(false);
        };
        let before = spans.spans;
        spans.put(&rented.store.pages, class, blocks, at)?;
        let closed = before - spans.spans;
        rooms.count(class, -(blocks.len() as i64));
        let bytes = closed * class.shape().span_units as usize * UNIT_BYTES;
        rooms.note_gone(&rented.store.pages, bytes);
        self.discharge(number, bytes);
        Ok(true)
    }

    /// Takes a block back that lay in the cache of another heap than its own.
    #[cold]
    pub(super) fn give_astray(&self, store: &Store<O>, class: SizeClass, block: usize) -> Result<(), Misuse> {
        match store.pages.tenant_of(block) {
            Some(_) => self.give_past_cache(store, block).map(|_| ()),
            None => store.central.give_to_spans(&store.pages, class, &[block]),
        }
    }

    /// Takes a block back into the heap that it belongs to, whether or not that has a cache; false where it belongs to none.
    pub(super) fn give_past_cache(&self, store: &Store<O>, address: usize) -> Result<bool, Misuse> {
        // Another thread may be handing the heap's blocks to another one.
        let mut waiting = Waiting::new();
        while let Some((id, number)) = store.pages.tenant_of(address) {
            let Some(tenant) = self.tenant(number) else { return Ok(false) };
            let rooms = tenant.rooms.lock();
            if is_on_its_way(store.pages.span(id)) {
                drop(rooms);
                waiting.wait(&store.os);
            } else if store.pages.tenant_of(address) == Some((id, number)) {
                return self.give_under_lock(store, (tenant, number), rooms, id, address).map(|()| true);
            }
        }
        Ok(false)
    }

    fn give_under_lock(
        &self,
        store: &Store<O>,
        (tenant, number): (&Tenant<O>, u32),
        mut rooms: Guard<'_, Rooms, O>,
        id: SpanId,
        address: usize,
    ) -> Result<(), Misuse> {
        let class = store.pages.span(id).class();
        rooms.note_call(&store.pages);
        if tenant.is_over() {
            // The block went with its heap, although its span is open yet.
            return Err(Misuse::at(Fault::FreeMemory, address));
        }
        if tenant.state.load(Ordering::Relaxed) == DRAINING {
            tenant.late.fetch_add(1, Ordering::Relaxed);
        }
        if !class.is_small() {
            self.give_large(store, number, &mut rooms, id, address)?;
            drop(rooms);
        } else {
            let pages = &store.pages;
            if pages.class_of_allocated(address).is_none() {
                return Err(not_allocated(store, class, address));
            }
            let Some(spans) = self.spans(&mut rooms, class) else {
                return Err(Misuse::at(Fault::FreeMemory, address));
            };
            let before = spans.spans;
            spans.put(pages, class, &[address], pages.clock.load())?;
            let closed = before - spans.spans;
            rooms.count(class, -1);
            let bytes = closed * class.shape().span_units as usize * UNIT_BYTES;
            rooms.note_gone(pages, bytes);
            self.discharge(number, bytes);
            drop(rooms);
        }
        if tenant.state.load(Ordering::Relaxed) == DRAINING {
            self.finish_if_drained(store, tenant, self.id_of(number));
        }
        Ok(())
    }

    /// Closes the spans that a heap keeps although they are empty; whether there are any.
    pub(super) fn close_empties(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32) -> bool {
        let mut bytes = 0;
        let mut rooms = tenant.rooms.lock();
        if tenant.is_zombie() {
            return false;
        }
        for class in SizeClass::all() {
            if self.spans(&mut rooms, class).is_some_and(|spans| spans.close_empty(&store.pages)) {
                bytes += class.shape().span_units as usize * UNIT_BYTES;
            }
        }
        self.discharge(number, bytes);
        bytes > 0
    }

    /// Gives idle pages of a span back, as `Central::subrelease` does.
    pub fn subrelease(&self, store: &Store<O>, id: SpanId, ticks: Ticks) -> usize {
        let (pages, span) = (&store.pages, store.pages.span(id));
        let (class, number) = (span.class(), span.heap.get());
        let Some(tenant) = self.tenant(number).filter(|_| class.is_small()) else { return 0 };
        // A heap's own delay holds where pages wait at all.
        let ticks = match tenant.delay.load(Ordering::Relaxed) {
            own if own != 0 && ticks != Ticks(0) => Ticks(own),
            _ => ticks,
        };
        let mut rooms = tenant.rooms.lock();
        if (span.class(), span.heap.get()) != (class, number) || tenant.is_zombie() {
            return 0;
        }
        let Some(spans) = self.spans(&mut rooms, class) else { return 0 };
        let before = spans.spans;
        let subreleasing = spans.begin_subrelease(pages, id, ticks);
        let closed = before - spans.spans;
        self.discharge(number, closed * class.shape().span_units as usize * UNIT_BYTES);
        drop(rooms);
        let Some(subreleasing) = subreleasing else { return 0 };
        let gone = release_pages(&store.os, pages, id, subreleasing.idle);
        let mut rooms = tenant.rooms.lock();
        if let Some(spans) = self.spans(&mut rooms, class) {
            let before = spans.spans;
            spans.end_subrelease(pages, id, subreleasing, gone);
            let closed = before - spans.spans;
            self.discharge(number, closed * class.shape().span_units as usize * UNIT_BYTES);
        }
        gone.count_ones() as usize * PAGE_BYTES
    }
}

impl<O: Os> Rented<'_, O> {
    fn note_call(&self, rooms: &mut Rooms) {
        rooms.note_call(&self.store.pages);
        self.is_busy.set(rooms.calls >= BUSY_CALLS);
    }
}

impl<O: Os> Tenant<O> {
    /// Whether so many calls came to the lock in this tick that a cache is worth its memory.
    pub(super) fn is_busy(&self, pages: &Pages<O>) -> bool {
        let rooms = self.rooms.lock();
        rooms.calls >= BUSY_CALLS && rooms.counted_at == pages.clock.load()
    }
}

impl Rooms {
    /// Counts blocks that go, or come back.
    pub(super) fn count(&mut self, class: SizeClass, blocks: i64) {
        self.live_blocks = self.live_blocks.wrapping_add_signed(blocks);
        self.live_bytes = self.live_bytes.wrapping_add_signed(blocks * class.block_bytes() as i64);
    }

    /// Notes bytes of spans that were closed.
    pub(super) fn note_gone<O: Os>(&mut self, pages: &Pages<O>, bytes: usize) {
        if bytes != 0 {
            self.gone = self.gone_lately(pages).saturating_add(bytes);
            self.gone_at = pages.clock.load();
        }
    }

    /// The bytes of spans that were closed a moment ago.
    pub(super) fn gone_lately<O: Os>(&self, pages: &Pages<O>) -> usize {
        if pages.clock.load().since(self.gone_at) > Ticks(1) { 0 } else { self.gone }
    }

    /// Notes a call that came to the lock.
    pub(super) fn note_call<O: Os>(&mut self, pages: &Pages<O>) {
        let now = pages.clock.load();
        if self.counted_at != now {
            (self.counted_at, self.calls) = (now, 0);
        }
        self.calls = self.calls.saturating_add(1);
    }
}

/// Whether a thread hands the span from one heap to another, and it is in no list. Seen under the lock of the heap that the span
/// names.
fn is_on_its_way(span: &Span) -> bool {
    span.list.get() == OPENED
}

/// The misuse in freeing an address where no block starts that its span gave out.
#[cold]
pub(super) fn not_allocated<O: Os>(store: &Store<O>, class: SizeClass, address: usize) -> Misuse {
    match locate(&store.pages, class, address) {
        Ok(_) => {
            let block = Some((address, class.block_bytes()));
            Misuse { block, ..Misuse::at(Fault::FreeBlock, address) }
        }
        Err(misuse) => misuse,
    }
}
