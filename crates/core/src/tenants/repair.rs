//! Putting heaps right in a child process whose parent's other threads were changing them.
//!
//! The spans tell the truth: each says whose it is, and its bitmap which of its blocks are in use. Lists and counts follow.

use super::{CLOSING, ENDING, Rooms, Tenants, UNUSED};
use crate::base::sync::Ordering;
use crate::central::Store;
use crate::class::SizeClass;
use crate::os::Os;
use crate::pages::{OPENED, Pages, SpanId};

impl<O: Os> Tenants<O> {
    /// Takes the lock of the tables over.
    ///
    /// # Safety
    /// All threads that could hold it, but this one, stayed in the parent process.
    pub unsafe fn repair_registry(&self, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            // A thread that stayed behind may have had a cache between two heaps, with the lock free.
            let is_free =
                || outermost && self.has_any() && self.registry.try_lock().map(core::mem::forget).is_some();
            if self.registry.seize(outermost) || is_free() {
                let registry = self.registry.seized();
                registry.unused = 0;
                self.find_unused_lists(registry);
                self.find_unused_slots(registry);
                self.recount_children();
                self.take_zombies_over();
                for (number, tenant) in self.all() {
                    if tenant.is_unused() && !tenant.life().is_spent() {
                        tenant.parent.store(registry.unused, Ordering::Relaxed);
                        registry.unused = number;
                    }
                }
                self.registry.release();
            }
        }
    }

    /// Counts the children of all heaps anew: a heap that ended may have gone from one count and not from the table.
    fn recount_children(&self) {
        self.all().for_each(|(_, tenant)| tenant.children.store(0, Ordering::Relaxed));
        for (_, tenant) in self.all().filter(|(_, tenant)| !tenant.is_unused()) {
            if let Some(parent) = self.tenant(tenant.parent.load(Ordering::Relaxed)) {
                parent.children.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes over the freezers of caches.
    ///
    /// # Safety
    /// As `Cache::repair_freezer` asks for.
    pub unsafe fn repair_caches(&self, store: &Store<O>, outermost: bool) {
        for (slot, tenant, id) in self.with_tenants() {
            slot.forget_users(outermost);
            // SAFETY: by the caller's promise.
            unsafe { slot.cache.repair_freezer(&self.rented(store, tenant, id), outermost) };
        }
    }

    /// Puts the rooms of all heaps right.
    ///
    /// # Safety
    /// As `repair_registry` asks for; the pages are right already.
    pub unsafe fn repair_rooms(&self, pages: &Pages<O>, outermost: bool) {
        let mut any = false;
        for (number, tenant) in self.all() {
            // SAFETY: by the caller's promise; each is released by the thread that seized it.
            unsafe {
                // The lock may be free while a thread that stayed behind opens a span, or gives pages of one back.
                let is_left = || {
                    let rooms = &*tenant.rooms.as_ptr();
                    let away =
                        |class| self.spans_seen(rooms, class).is_some_and(|spans| spans.has_any_away());
                    let is_ending = [ENDING, CLOSING].contains(&tenant.state.load(Ordering::Relaxed));
                    outermost && (rooms.opening > 0 || is_ending || SizeClass::all().any(away))
                };
                if tenant.state.load(Ordering::Relaxed) == UNUSED {
                    tenant.rooms.take_over(outermost);
                } else if tenant.rooms.seize(outermost)
                    || is_left() && tenant.rooms.try_lock().map(core::mem::forget).is_some()
                {
                    any = true;
                    self.rebuild(pages, number, tenant.rooms.seized(), outermost);
                    tenant.rooms.release();
                }
            }
        }
        if outermost {
            self.take_ends_over();
        }
        if any {
            pages.recount_released();
            self.recount(pages);
        }
    }

    fn rebuild(&self, pages: &Pages<O>, number: u32, rooms: &mut Rooms, all: bool) {
        *rooms = Rooms { lists: rooms.lists, opening: if all { 0 } else { rooms.opening }, ..Rooms::EMPTY };
        for class in SizeClass::all() {
            if let Some(spans) = self.spans(rooms, class) {
                spans.rebuild(pages, class, all);
            }
        }
        for id in (0..pages.span_count_unlocked()).map(SpanId) {
            let span = pages.span(id);
            let is_known = || pages.span_of(pages.address_of(span.start.get())) == Some(id);
            let is_away = !all && span.list.get() == OPENED;
            if span.heap.get() != number || span.class() == SizeClass::NONE || is_away || !is_known() {
                continue;
            }
            if span.class() == SizeClass::LARGE {
                rooms.link(pages, id);
            } else {
                let live = u64::from(span.blocks() - span.free.get());
                rooms.live_blocks += live;
                rooms.live_bytes += live * span.class().block_bytes() as u64;
            }
        }
    }

    /// Counts the bytes of all heaps anew.
    fn recount(&self, pages: &Pages<O>) {
        self.all().for_each(|(_, tenant)| tenant.bytes.store(0, Ordering::Relaxed));
        for id in (0..pages.span_count_unlocked()).map(SpanId) {
            let span = pages.span(id);
            if span.heap.get() != 0 && span.class() != SizeClass::NONE {
                self.count(span.heap.get(), span.bytes());
            }
        }
    }
}
