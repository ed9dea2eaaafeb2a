//! A heap that is emptied: its spans are taken out of its lists and closed, and its entries go.
//!
//! Spans go in portions, so that a thread which wants the lock meanwhile has it; the call that ends a heap closes some, and
//! `close_left` the others. A thread that opens a span for the heap, or
//! gives pages of one back, comes back first.

use super::waiting::Waiting;
use super::{CLOSING, DRAINING, ENDING, HeapId, LEFT, LIVE, Rooms, Tenant, Tenants};
use crate::base::sync::Ordering;
use crate::central::Store;
use crate::class::SizeClass;
use crate::os::{Guard, Os};
use crate::pages::{OPENED, SpanId};

/// Spans that go under one holding of the lock.
pub(super) const PORTION: usize = 64;
/// Spans that the call closes which ends a heap: some milliseconds.
pub(super) const AT_ONCE: usize = 32 * PORTION;

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
            is_over && state.compare_exchange(DRAINING, CLOSING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        drop(rooms);
        if is_last {
            self.finish(store, tenant, id.number(), usize::MAX);
        }
    }

    /// Closes up to `most` spans of a heap that ends, and leaves the others to `close_left`. Returns their bytes.
    pub(super) fn finish(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32, most: usize) -> usize {
        tenant.state.store(CLOSING, Ordering::Release);
        let bytes = || tenant.bytes.load(Ordering::Relaxed);
        let before = bytes();
        let is_empty = self.empty(store, tenant, number, most);
        let closed = before.saturating_sub(bytes());
        if is_empty {
            self.leave(tenant, number);
        } else {
            self.part_from_parent(store, tenant);
            self.left.fetch_add(1, Ordering::Relaxed);
            tenant.state.store(LEFT, Ordering::Release);
        }
        closed
    }

    /// How many heaps have ended whose spans are not all closed, by the calls that ended them.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Closes up to `most` spans of a heap that has ended; the bytes, or none where no heap waits for it: others may be at it.
    pub fn close_left(&self, store: &Store<O>, most: usize) -> Option<usize> {
        if self.left() == 0 {
            return None;
        }
        let is_taken = |tenant: &Tenant<O>| {
            tenant.state.compare_exchange(LEFT, CLOSING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let (number, tenant) = self.all().find(|(_, tenant)| is_taken(tenant))?;
        let before = tenant.bytes.load(Ordering::Relaxed);
        let is_empty = self.empty(store, tenant, number, most);
        let closed = before.saturating_sub(tenant.bytes.load(Ordering::Relaxed));
        if is_empty {
            self.leave(tenant, number);
            self.left.fetch_sub(1, Ordering::Relaxed);
        } else {
            tenant.state.store(LEFT, Ordering::Release);
        }
        Some(closed)
    }

    /// Takes a heap that has ended out of the account of those above it: they may have as many bytes anew, and end.
    fn part_from_parent(&self, store: &Store<O>, tenant: &Tenant<O>) {
        // Nobody counts bytes of it meanwhile.
        let rooms = self.alone(store, tenant);
        let above = tenant.parent.swap(0, Ordering::Relaxed);
        self.discharge(above, tenant.bytes.load(Ordering::Relaxed));
        drop(rooms);
        if let Some(parent) = self.tenant(above) {
            // Release pairs with the Acquire in `end`: its entry may be another heap's after that.
            parent.children.fetch_sub(1, Ordering::Release);
        }
    }

    /// In a child: no other thread ends a heap, empties one, or closes spans. A heap whose end had not come to its spans, or to some
    /// of them only, is one that can be ended again.
    pub(super) fn take_ends_over(&self) {
        let mut left = 0;
        for (_, tenant) in self.all() {
            let state = &tenant.state;
            match state.load(Ordering::Relaxed) {
                CLOSING => state.store(LEFT, Ordering::Relaxed),
                ENDING => state.store(LIVE, Ordering::Relaxed),
                _ => {}
            }
            tenant.forget_others_on_limit(O::mark());
            left += u32::from(state.load(Ordering::Relaxed) == LEFT);
        }
        self.left.store(left, Ordering::Relaxed);
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
    pub(super) fn alone<'a>(&self, store: &Store<O>, tenant: &'a Tenant<O>) -> Guard<'a, Rooms, O> {
        let mut waiting = Waiting::new();
        loop {
            let rooms = tenant.rooms.lock();
            let has_any_away =
                |class| self.spans_seen(&rooms, class).is_some_and(|spans| spans.has_any_away());
            if rooms.opening == 0 && !SizeClass::all().any(has_any_away) {
                return rooms;
            }
            drop(rooms);
            waiting.wait(&store.os);
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

    /// Gives up to `most` spans of a heap back, whatever of them is in use; true where it has no more.
    pub(super) fn empty(&self, store: &Store<O>, tenant: &Tenant<O>, number: u32, most: usize) -> bool {
        let mut closed = 0;
        while closed < most {
            let (mut rooms, mut ids) = (self.alone(store, tenant), [SpanId::NONE; PORTION]);
            let count = self.take_spans(store, &mut rooms, &mut ids);
            let ids = ids.get(..count).unwrap_or_default();
            let mut bytes = 0;
            for span in ids.iter().map(|id| store.pages.span(*id)) {
                bytes += span.bytes();
                let class = span.class();
                if class.is_small() {
                    rooms.count(class, -i64::from(span.blocks() - span.free.get()));
                    store.pages.forget_allocated(span.start.get(), span.units.get());
                }
            }
            // Before the lock is left: a late free finds that nobody has such a block.
            store.pages.close_spans(ids, store.pages.clock.load());
            self.discharge(number, bytes);
            closed += count;
            if count < PORTION {
                return true;
            }
        }
        false
    }
}
