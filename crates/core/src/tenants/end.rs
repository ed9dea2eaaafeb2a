//! The end of a heap: its blocks go with it, or belong to the heap above it, or it waits for them.

use super::emptying::{AT_ONCE, PORTION};
use super::{CLOSING, DRAINING, ENDING, Ending, HeapId, LEFT, LIVE, Refusal, Tenant, Tenants, UNUSED};
use crate::base::fault::Misuse;
use crate::base::sync::{Ordering, pause};
use crate::central::Store;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::Os;
use crate::pages::SpanId;

impl<O: Os> Tenants<O> {
    /// Ends a heap, or has it give no more blocks. Its name means nothing from then on. Returns the bytes of spans that were closed, now or a moment ago;
    /// some may be left for `close_left`. `tell` is called when it is sure that all its blocks go, or are handed over, and before
    /// the first one does; with no lock held.
    pub fn end(
        &self,
        store: &Store<O>,
        id: HeapId,
        how: Ending,
        tell: impl FnOnce(),
    ) -> Result<Result<usize, Refusal>, Misuse> {
        let registry = self.registry.lock();
        let is_to_wait = [Ending::Drain, Ending::Zombie].contains(&how);
        // A heap that waits for its blocks can still be ended at once.
        let Some(tenant) = self.find(id) else { return Ok(Err(Refusal::Gone)) };
        let state = tenant.state.load(Ordering::Acquire);
        if [ENDING, CLOSING, LEFT, UNUSED].contains(&state) || state == DRAINING && is_to_wait {
            return Ok(Err(Refusal::Gone));
        }
        // Under the lock: a heap below it is made under it.
        if tenant.children.load(Ordering::Acquire) > 0 {
            return Ok(Err(Refusal::HasChildren));
        }
        let next = if is_to_wait { DRAINING } else { ENDING };
        if tenant.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Ok(Err(Refusal::Gone));
        }
        drop(registry);
        // The owner may have freed the blocks one by one just before: as much memory is free now as if they went here.
        let gone_lately = || tenant.rooms.lock().gone_lately(&store.pages);
        let before = gone_lately();
        self.detach_all(store, tenant, id)?;
        // A heap that drains may have ended with its cache.
        let mut closed = before.max(gone_lately());
        if !is_to_wait {
            drop(self.alone(store, tenant));
            if how == Ending::HandOver && !self.make_ready_above(store, tenant) {
                tenant.state.store(state, Ordering::Release);
                self.finish_if_drained(store, tenant, id);
                return Ok(Err(Refusal::Memory));
            }
            tell();
        }
        match how {
            Ending::Drain | Ending::Zombie => self.finish_if_drained(store, tenant, id),
            Ending::FreeAll => closed += self.finish(store, tenant, id.number(), AT_ONCE),
            Ending::HandOver => {
                self.hand_over(store, tenant, id.number());
                closed = 0;
            }
        }
        Ok(Ok(closed))
    }

    /// Frees all blocks of a heap, which gives none meanwhile, and stays. `tell` as for `end`.
    pub fn reset(
        &self,
        store: &Store<O>,
        id: HeapId,
        tell: impl FnOnce(),
    ) -> Result<Result<(), Refusal>, Misuse> {
        let registry = self.registry.lock();
        let tenant = match self.find_live(id) {
            Ok(tenant) => tenant,
            Err(refusal) => return Ok(Err(refusal)),
        };
        tenant.state.store(ENDING, Ordering::Release);
        drop(registry);
        self.detach_all(store, tenant, id)?;
        drop(self.alone(store, tenant));
        tell();
        self.empty(store, tenant, id.number(), usize::MAX);
        tenant.state.store(LIVE, Ordering::Release);
        Ok(Ok(()))
    }

    /// Makes all spans of a heap those of the heap above it, and ends it.
    fn hand_over(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32) {
        let above = tenant.parent.load(Ordering::Relaxed);
        let parent = self.tenant(above);
        // It does not lose its blocks, nor a child of this process its lists, while spans are on their way to it.
        if let Some(parent) = parent {
            parent.rooms.lock().opening += 1;
            self.add_lists_of(store, tenant, parent, above);
        }
        loop {
            let (mut rooms, mut ids) = (self.alone(store, tenant), [SpanId::NONE; PORTION]);
            let count = self.take_spans(store, &mut rooms, &mut ids);
            let ids = ids.get(..count).unwrap_or_default();
            let bytes: usize = ids.iter().map(|id| store.pages.span(*id).bytes()).sum();
            if parent.is_none() && store.pages.has_left_out() {
                // Nobody else knows the spans: a free that comes meanwhile waits.
                drop(rooms);
                ids.iter().for_each(|id| store.pages.let_into_dumps(&store.os, *id));
                rooms = tenant.rooms.lock();
            }
            match parent {
                None => ids.iter().for_each(|id| match store.pages.span(*id).class().is_small() {
                    true => store.central.adopt(&store.pages, *id),
                    false => store.pages.hand_over(*id, 0),
                }),
                // A free that comes meanwhile waits until the span has arrived.
                Some(_) => ids.iter().for_each(|id| store.pages.hand_over(*id, above)),
            }
            tenant.discharge(bytes);
            drop(rooms);
            if let Some(parent) = parent {
                ids.iter().for_each(|id| self.arrive(store, parent, above, *id));
            }
            if count < PORTION {
                break;
            }
        }
        if let Some(parent) = parent {
            let mut rooms = parent.rooms.lock();
            rooms.opening = rooms.opening.saturating_sub(1);
        }
        self.leave(tenant, number);
    }

    /// Gives the heap above a heap lists for all spans that it may get; false where there is no memory.
    fn make_ready_above(&self, store: &Store<O>, tenant: &Tenant<O>) -> bool {
        let above = tenant.parent.load(Ordering::Relaxed);
        self.tenant(above).is_none_or(|parent| self.add_lists_of(store, tenant, parent, above))
    }

    /// Gives a heap lists for all classes that a heap below it uses, as far as there is memory.
    fn add_lists_of(&self, store: &Store<O>, below: &Tenant<O>, tenant: &Tenant<O>, number: u32) -> bool {
        let used = below.rooms.lock().lists;
        let mut classes = SizeClass::all().filter(|class| used.get(class.index()).is_some_and(|at| *at != 0));
        classes.all(|class| {
            let is_there = tenant.rooms.lock().number_for(class) != 0;
            is_there || self.add_lists(store, tenant, number, class).is_ok()
        })
    }

    /// Takes a span that a heap below handed over.
    fn arrive(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32, id: SpanId) {
        let span = store.pages.span(id);
        let class = span.class();
        loop {
            let mut rooms = tenant.rooms.lock();
            if !class.is_small() {
                return rooms.link(&store.pages, id);
            }
            let live = span.blocks() - span.free.get();
            if let Some(spans) = self.spans(&mut rooms, class) {
                let before = spans.spans;
                spans.adopt(&store.pages, id);
                let closed = (before + 1) - spans.spans;
                self.discharge(number, closed * class.shape().span_units as usize * UNIT_BYTES);
                rooms.live_blocks = rooms.live_blocks.wrapping_add(u64::from(live));
                let bytes = u64::from(live) * class.block_bytes() as u64;
                rooms.live_bytes = rooms.live_bytes.wrapping_add(bytes);
                return;
            }
            drop(rooms);
            if self.add_lists(store, tenant, number, class).is_err() {
                // Without memory for lists: it stays in use until there is some.
                pause();
            }
        }
    }

    /// Brings what the heap's cache holds back to its spans.
    pub fn drain(&self, store: &Store<O>, id: HeapId) -> Result<(), Misuse> {
        let Some(tenant) = self.find(id) else { return Ok(()) };
        if let Some(in_use) = tenant.use_cache() {
            in_use.cache().drain(&self.rented(store, tenant, id))?;
        }
        Ok(())
    }

    /// Gives what the heap holds and nobody uses back to the page heap.
    pub fn tidy(&self, store: &Store<O>, id: HeapId) -> Result<usize, Misuse> {
        let Some(tenant) = self.find(id) else { return Ok(0) };
        self.drain(store, id)?;
        self.close_empties(store, tenant, id.number());
        let (mut from, mut bytes) = (0, 0);
        let count = store.pages.span_count();
        while from < count {
            let end = count.min(from + PORTION as u32);
            for at in store.pages.candidates_in(from..end) {
                if store.pages.span(at).heap.get() == id.number() && tenant.is_live() {
                    bytes += self.subrelease(store, at, crate::base::ticks::Ticks(0));
                }
            }
            from = end;
        }
        Ok(bytes)
    }
}
