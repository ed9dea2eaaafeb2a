//! Caches of virtual CPUs for heaps that are busy. A heap begins without: its blocks come from its spans, under its lock.
//!
//! A slot is a cache as the process's own heap has one, within the same bound. When its heap ends, or has been quiet for some
//! ticks, the slot is emptied and waits for another heap. A thread that found the cache just before may still put a block into
//! it, later, for the next heap: each block goes back to the heap that its span names, whichever cache it comes from.

use super::spans::Rented;
use super::users::Users;
use super::{HeapId, LIVE, Registry, Tenant, Tenants};
use crate::base::Fresh;
use crate::base::fault::Misuse;
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::ticks::{Tick, Ticks};
use crate::cache::{Cache, Look, Stillness};
use crate::central::{Budget, Middle, Store};
use crate::class::SizeClass;
use crate::os::Os;
use crate::pages::Pages;

/// Slots, and the mappings that all slabs of them may be: a process may have 65,530.
const MOST_SLOTS: usize = 1024;
const MOST_MAPPINGS: usize = 16_384;
/// Mappings of one slab.
const MAPPINGS_EACH: usize = 2;

/// Between two looks whether the threads that use a cache have come back, in nanoseconds.
const WAIT: u64 = 20_000;

/// In place of a heap: the system refused to stop the sequences when the slot was to be emptied.
const ABANDONED: u32 = u32::MAX;

/// A cache, and the heap that has it.
pub(super) struct Slot<O: Os> {
    pub cache: Cache<O>,
    /// 0: none; or `ABANDONED`.
    heap: AtomicU32,
    /// Of an unused slot the next one.
    next: AtomicU32,
    users: Users,
}

/// A thread's use of a slot in a slow path.
pub(super) struct InUse<'a, O: Os> {
    slot: &'a Slot<O>,
}

impl<O: Os> InUse<'_, O> {
    pub fn cache(&self) -> &Cache<O> {
        &self.slot.cache
    }
}

impl<O: Os> Drop for InUse<'_, O> {
    fn drop(&mut self) {
        self.slot.users.leave();
    }
}

impl<O: Os> Slot<O> {
    /// In a child nobody uses it but this thread, in work that a handler may have interrupted.
    pub fn forget_users(&self, outermost: bool) {
        if outermost {
            self.users.forget();
        }
    }
}

impl<O: Os> Middle<O> for Rented<'_, O> {
    fn os(&self) -> &O {
        &self.store.os
    }

    fn pages(&self) -> &Pages<O> {
        &self.store.pages
    }

    fn budget(&self) -> &Budget {
        &self.store.central.budget
    }

    fn take(&self, class: SizeClass, out: &mut [usize]) -> usize {
        let taken = self.tenants.take_from_spans(self, class, out);
        self.refusal.set(taken.err());
        taken.unwrap_or(0)
    }

    fn take_one(&self, class: SizeClass) -> Fresh {
        let mut one = [0];
        self.take(class, &mut one);
        let [address] = one;
        Fresh { address, zeroed: false }
    }

    fn give(&self, class: SizeClass, blocks: &[usize]) -> Result<(), Misuse> {
        self.return_blocks(class, blocks, self.store.pages.clock.load())
    }

    fn return_blocks(&self, class: SizeClass, blocks: &[usize], at: Tick) -> Result<(), Misuse> {
        let mut outcome = Ok(());
        // A thread that wants the lock meanwhile has it between two portions.
        for portion in blocks.chunks(64) {
            if !self.tenants.put_into_spans(self, class, portion, at)? {
                // Some are of another heap, or of none: each goes where its span says.
                portion.iter().for_each(|block| {
                    outcome = outcome.and(self.tenants.give_astray(self.store, class, *block));
                });
            }
        }
        outcome
    }

    fn condenses(&self, _: SizeClass) -> bool {
        false
    }

    fn transfers(&self, _: SizeClass, _: usize) -> bool {
        false
    }
}

impl<O: Os> Tenant<O> {
    /// The cache of this heap, for a look and for sequences that look whose it is.
    #[inline]
    pub(super) fn cache(&self) -> Option<&Cache<O>> {
        self.slot().map(|slot| &slot.cache)
    }

    #[inline]
    fn slot(&self) -> Option<&Slot<O>> {
        match self.cache.load(Ordering::Acquire) {
            0 => None,
            // SAFETY: a slot stays as long as the process; it is stored when it is ready.
            slot => Some(unsafe { &*core::ptr::with_exposed_provenance::<Slot<O>>(slot) }),
        }
    }

    /// The same for a slow path: it stays this heap's as long as the value lives.
    pub(super) fn use_cache(&self) -> Option<InUse<'_, O>> {
        let slot = self.slot()?;
        slot.users.enter(&self.cache, core::ptr::from_ref(slot).addr()).then(|| InUse { slot })
    }
}

impl<O: Os> Tenants<O> {
    /// A block of a heap's cache; 0 where there is none.
    #[inline]
    pub fn pop(&self, id: HeapId, class: SizeClass) -> usize {
        let cache = self.find(id).and_then(Tenant::cache);
        cache.map_or(0, |cache| cache.front.pop_of(class, id.0))
    }

    /// Puts a block into the cache of a heap; false where it has no place.
    #[inline]
    pub fn push(&self, id: HeapId, class: SizeClass, block: usize) -> bool {
        let cache = self.tenant(id.number()).and_then(Tenant::cache);
        cache.is_some_and(|cache| cache.front.push_of(class, block, id.0))
    }

    /// Whether a block that its span gave out lies in the cache of its heap.
    pub fn is_free(&self, store: &Store<O>, class: SizeClass, block: usize) -> Result<bool, Misuse> {
        let Some((_, number)) = store.pages.tenant_of(block) else { return Ok(false) };
        let Some(tenant) = self.tenant(number) else { return Ok(false) };
        let Some(in_use) = tenant.use_cache() else { return Ok(false) };
        let cache = in_use.cache();
        let rented = self.rented(store, tenant, self.id_of(number));
        cache.look_for(&rented, class, block)?;
        Ok(cache.has(&rented, class, block))
    }

    /// Gives a busy heap a cache, as far as there are some. `own` is that of the process's own heap.
    #[cold]
    pub(super) fn attach(&self, store: &Store<O>, own: &Cache<O>, tenant: &Tenant<O>, id: HeapId) {
        // Under the lock of the tables: a heap that ends says so under it, and has its cache taken after.
        let is_its_turn = || {
            tenant.state.load(Ordering::Acquire) == LIVE
                && tenant.generation.load(Ordering::Relaxed) == id.generation()
                && tenant.cache.load(Ordering::Relaxed) == 0
        };
        let mut registry = self.registry.lock();
        if !is_its_turn() {
            return;
        }
        let Some((number, slot)) = self.unused_slot(store, own, &mut registry) else { return };
        drop(registry);
        slot.heap.store(id.number(), Ordering::Relaxed);
        slot.cache.share_as(own);
        slot.cache.reopen(id.0);
        let registry = self.registry.lock();
        if is_its_turn() {
            tenant.slabs.store(slot.cache.slabs(), Ordering::Release);
            tenant.cache.store(core::ptr::from_ref(slot).expose_provenance(), Ordering::Release);
            return;
        }
        drop(registry);
        slot.cache.close();
        self.give_slot_back(number, slot);
    }

    fn unused_slot(
        &self,
        store: &Store<O>,
        own: &Cache<O>,
        registry: &mut Registry,
    ) -> Option<(u32, &Slot<O>)> {
        let unused = registry.unused_slots;
        if let Some(slot) = self.slot(unused) {
            registry.unused_slots = slot.next.load(Ordering::Relaxed);
            return Some((unused, slot));
        }
        let (next, slabs) = (registry.slots as usize + 1, own.cpus_most().max(1));
        let most = MOST_MAPPINGS.checked_div(slabs * MAPPINGS_EACH).unwrap_or(0).min(MOST_SLOTS);
        if next > most || !self.has_slots(store, next + 1) {
            return None;
        }
        let place = self.slots.at(next);
        let [heap, behind] = [const { AtomicU32::new(0) }; 2];
        let fresh = Slot { cache: Cache::new(), heap, next: behind, users: Users::new() };
        // SAFETY: the entry is there, and nobody knows it yet.
        let slot = unsafe {
            place.write(fresh);
            &*place
        };
        if !slot.cache.start_as(&store.os, own) {
            return None;
        }
        registry.slots = next as u32;
        self.slot_count.store(next as u32 + 1, Ordering::Release);
        Some((next as u32, slot))
    }

    fn give_slot_back(&self, number: u32, slot: &Slot<O>) {
        slot.heap.store(0, Ordering::Relaxed);
        let mut registry = self.registry.lock();
        slot.next.store(registry.unused_slots, Ordering::Relaxed);
        registry.unused_slots = number;
    }

    /// Finds the unused slots anew, as `find_unused_lists`. One that a thread was about to give a heap, or to take from it, is that
    /// heap's.
    pub(super) fn find_unused_slots(&self, registry: &mut Registry) {
        registry.unused_slots = 0;
        for (number, slot) in self.slots() {
            match self.tenant(slot.heap.load(Ordering::Relaxed)) {
                Some(tenant) if tenant.is_live() && tenant.cache.load(Ordering::Relaxed) == 0 => {
                    let address = core::ptr::from_ref(slot).expose_provenance();
                    tenant.slabs.store(slot.cache.slabs(), Ordering::Relaxed);
                    tenant.cache.store(address, Ordering::Release);
                }
                Some(tenant) if tenant.cache.load(Ordering::Relaxed) != core::ptr::from_ref(slot).addr() => {
                    slot.heap.store(ABANDONED, Ordering::Relaxed);
                }
                None if slot.heap.load(Ordering::Relaxed) == 0 => {
                    slot.next.store(registry.unused_slots, Ordering::Relaxed);
                    registry.unused_slots = number;
                }
                _ => {}
            }
        }
    }

    fn has_slots(&self, store: &Store<O>, count: usize) -> bool {
        (self.slots.capacity() != 0 || self.slots.start(&store.os, MOST_SLOTS + 1))
            && self.slots.ensure(&store.os, count)
    }

    fn slot(&self, number: u32) -> Option<&Slot<O>> {
        let is_known = number != 0 && number < self.slot_count.load(Ordering::Acquire);
        // SAFETY: entries below the count are there as long as the process.
        is_known.then(|| unsafe { self.slots.shared(number as usize) })
    }

    fn slots(&self) -> impl Iterator<Item = (u32, &Slot<O>)> {
        let count = self.slot_count.load(Ordering::Acquire);
        (1..count).filter_map(|number| Some((number, self.slot(number)?)))
    }

    /// The slots that heaps have.
    fn attached(&self) -> impl Iterator<Item = (u32, &Slot<O>, &Tenant<O>, HeapId)> {
        self.slots().filter_map(|(number, slot)| {
            let heap = slot.heap.load(Ordering::Relaxed);
            Some((number, slot, self.tenant(heap)?, self.id_of(heap)))
        })
    }

    /// All slots that heaps ever had, with the heap that has it, or any.
    pub(super) fn with_tenants(&self) -> impl Iterator<Item = (&Slot<O>, &Tenant<O>, HeapId)> {
        self.slots().filter_map(|(_, slot)| {
            let heap = slot.heap.load(Ordering::Relaxed).max(1);
            Some((slot, self.tenant(heap)?, self.id_of(heap)))
        })
    }

    /// Calls `take` with all caches that there are.
    pub fn each_cache(&self, mut take: impl FnMut(&Cache<O>)) {
        self.slots().for_each(|(_, slot)| take(&slot.cache));
    }

    /// Takes the cache of a heap away that gives no more blocks. When this returns no thread is at one that it had: it may have got
    /// a second one while another thread still brought the blocks of the first one back.
    pub(super) fn detach_all(&self, store: &Store<O>, tenant: &Tenant<O>, id: HeapId) -> Result<(), Misuse> {
        self.detach(store, tenant, id)?;
        // It may have drained, and another heap may have the entry.
        let is_still = || tenant.generation.load(Ordering::Relaxed) == id.generation();
        while is_still() && self.slots().any(|(_, slot)| slot.heap.load(Ordering::SeqCst) == id.number()) {
            store.os.sleep(WAIT);
        }
        Ok(())
    }

    /// Takes a heap's cache away and brings its blocks back to their spans, unless another thread does.
    pub(super) fn detach(&self, store: &Store<O>, tenant: &Tenant<O>, id: HeapId) -> Result<(), Misuse> {
        let address = Users::take_away(&tenant.cache);
        let found = self.slots().find(|(_, slot)| core::ptr::from_ref(*slot).addr() == address);
        let Some((number, slot)) = found.filter(|_| address != 0) else { return Ok(()) };
        tenant.slabs.store(slot.cache.empty_slabs(), Ordering::Relaxed);
        // They take locks, and wait for nobody who waits for this.
        while slot.users.any() {
            store.os.sleep(WAIT);
        }
        match slot.cache.retire(&self.rented(store, tenant, id))? {
            true => self.give_slot_back(number, slot),
            false => slot.heap.store(ABANDONED, Ordering::Relaxed),
        }
        // Its last block may have come back out of the cache.
        self.finish_if_drained(store, tenant, id);
        Ok(())
    }

    /// Brings all that the caches of heaps hold back to the spans; false where the system refused to stop the sequences.
    pub fn drain_caches(&self, store: &Store<O>) -> Result<bool, Misuse> {
        let mut stopped = true;
        for (_, slot, tenant, id) in self.attached() {
            stopped &= slot.cache.drain(&self.rented(store, tenant, id))?;
        }
        Ok(stopped)
    }

    /// Brings back what the caches hold of a heap and of those below it, and the spans that heap `id` keeps empty; whether there was
    /// something.
    pub fn make_room(&self, store: &Store<O>, above: HeapId, id: HeapId) -> Result<bool, Misuse> {
        let mut any = false;
        for (_, slot, tenant, id) in self.attached() {
            let is_below = self.upwards(id.number()).any(|(number, _)| number == above.number());
            if is_below && slot.cache.stats().granted > 0 {
                slot.cache.drain(&self.rented(store, tenant, id))?;
                self.close_empties(store, tenant, id.number());
                any = true;
            }
        }
        Ok(any | self.find(id).is_some_and(|tenant| self.close_empties(store, tenant, id.number())))
    }

    /// As `Cache::drain_still`, for all heaps; a heap whose cache is empty and stands still loses it.
    pub fn drain_still(
        &self,
        store: &Store<O>,
        own: &Cache<O>,
        patience: Stillness,
        since: impl Fn(Ticks) -> Tick,
    ) -> Result<Look, Misuse> {
        let mut all = Look::default();
        for (_, slot, tenant, id) in self.attached() {
            slot.cache.share_as(own);
            let look = slot.cache.drain_still(&self.rented(store, tenant, id), patience, &since)?;
            all = Look { moved: all.moved || look.moved, refused: all.refused || look.refused };
            let is_quiet = !look.moved && slot.cache.stats().granted == 0;
            if is_quiet && !slot.users.any() {
                self.detach(store, tenant, id)?;
            }
        }
        Ok(all)
    }

    /// Turns the sequences of all caches off, in a process that aborts.
    pub fn stop(&self) {
        self.each_cache(Cache::stop);
    }

    /// Bytes of blocks in a heap's cache, and how many.
    pub(super) fn cached_of(&self, tenant: &Tenant<O>) -> (u64, u64) {
        let Some(cache) = tenant.cache() else { return (0, 0) };
        SizeClass::all().fold((0, 0), |(bytes, blocks), class| {
            let cached = cache.cached_blocks(class);
            (bytes + cached * class.block_bytes() as u64, blocks + cached)
        })
    }
}
