//! The beginning of a heap: an entry of the table, below another one or the process's own.

use super::{HeapId, LIVE, Refusal, Rooms, Tenant, Tenants, UNUSED, is_over};
use crate::base::sync::Ordering;
use crate::base::ticks::Ticks;
use crate::cache::Cache;
use crate::os::Os;

/// Bytes of a name; longer ones are cut.
pub const NAME_BYTES: usize = 40;
/// Heaps at a time, where there are addresses for so many; fewer else.
const MOST_HEAPS: [usize; 3] = [1 << 20, 1 << 16, 1 << 12];
/// Classes that a heap uses on the mean, if all are made that can be.
const CLASSES_EACH: usize = 4;

/// A request for a heap.
#[derive(Clone, Copy)]
pub struct Made<'a> {
    pub name: &'a [u8],
    /// `HeapId::OWN` for none.
    pub parent: HeapId,
    /// In bytes; none: as much as the heaps above it have.
    pub limit: Option<usize>,
    /// Called where the limit refuses memory, with no lock held; the request is tried once more then.
    pub on_limit: Option<OnLimit>,
    /// Its last argument.
    pub argument: usize,
}

/// Gets the heap whose limit it is, the bytes that were asked for, and what the heap's maker gave.
pub type OnLimit = extern "C" fn(u64, usize, usize);

impl<O: Os> Tenants<O> {
    /// `own` is the cache of the process's own heap.
    pub fn make(&self, os: &O, own: &Cache<O>, made: Made<'_>) -> Result<HeapId, Refusal> {
        let mut registry = self.registry.lock();
        if !self.has_any() && !self.start(os, own) {
            return Err(Refusal::Memory);
        }
        // Under the lock: a heap that ends counts its children under it.
        let parent = match made.parent {
            HeapId::OWN => None,
            id => Some(self.find_live(id)?),
        };
        let number = match registry.unused {
            0 => {
                let next = self.count.load(Ordering::Relaxed);
                if next as usize >= self.table.capacity() || !self.table.ensure(os, next as usize + 1) {
                    return Err(Refusal::Memory);
                }
                // A sequence may come here for a name that no heap ever had.
                // SAFETY: the entry is there, and others may only read it.
                unsafe { self.table.shared(next as usize) }.slabs.store(own.empty_slabs(), Ordering::Relaxed);
                self.note_count(next + 1);
                next
            }
            unused => unused,
        };
        let Some(tenant) = self.tenant(number) else { return Err(Refusal::Memory) };
        if registry.unused == number {
            registry.unused = tenant.parent.load(Ordering::Relaxed);
        }
        if let Some(parent) = parent {
            parent.children.fetch_add(1, Ordering::Relaxed);
        }
        tenant.parent.store(if parent.is_some() { made.parent.number() } else { 0 }, Ordering::Relaxed);
        let generation = tenant.life().renew();
        tenant.begin(made, os.now());
        tenant.slabs.store(own.empty_slabs(), Ordering::Relaxed);
        tenant.id.store(HeapId::of(number, generation).0, Ordering::Relaxed);
        // The entry is nobody's until it lives, and rooms come before the registry.
        drop(registry);
        *tenant.rooms.lock() = Rooms::EMPTY;
        tenant.life().begin(LIVE);
        Ok(HeapId::of(number, generation))
    }

    fn start(&self, os: &O, own: &Cache<O>) -> bool {
        let starts = |most: &usize| {
            if !self.table.start(os, *most) {
                return false;
            }
            let are_both = self.lists.start(os, *most * CLASSES_EACH);
            if !are_both {
                self.table.stop(os);
            }
            are_both
        };
        let is_there = MOST_HEAPS.iter().any(starts) && self.table.ensure(os, 1);
        if is_there {
            // A sequence comes here that frees a block which was just handed to the process's own heap: it finds no slab.
            // SAFETY: the entry is there; nobody else knows of the table yet.
            unsafe { self.table.shared(0) }.slabs.store(own.empty_slabs(), Ordering::Relaxed);
            self.note_count(1);
        }
        is_there
    }

    /// Makes the entry of a heap that has ended unused. Nobody has its rooms.
    pub(super) fn unmake(&self, number: u32) {
        let Some(tenant) = self.tenant(number) else { return };
        let mut registry = self.registry.lock();
        if let Some(parent) = self.tenant(tenant.parent.load(Ordering::Relaxed)) {
            parent.children.fetch_sub(1, Ordering::Relaxed);
        }
        tenant.state.store(UNUSED, Ordering::Release);
        tenant.parent.store(registry.unused, Ordering::Relaxed);
        if !tenant.life().is_spent() {
            registry.unused = number;
        }
    }

    /// Tells a heap's maker that its limit refused so many bytes; false where he does not want to know, or knows from this thread. Called with no lock held.
    pub fn tell_of_limit(&self, id: HeapId, bytes: usize) -> bool {
        let Some(tenant) = self.find(id) else { return false };
        let argument = tenant.argument.load(Ordering::Relaxed);
        let call = tenant.on_limit.load(Ordering::Relaxed);
        // Not the function of one heap with the argument of another.
        if tenant.life().state_still_in(id.generation()).is_none_or(is_over) {
            return false;
        }
        // It may allocate in the heap itself, and is not called for that.
        let mark = O::mark();
        match call {
            0 => false,
            _ if tenant.is_in_on_limit(mark) => false,
            call => {
                let Some(place) = tenant.enter_on_limit(mark) else { return true };
                // SAFETY: stored by `begin`, which takes a function of this type.
                let call = unsafe {
                    core::mem::transmute::<*const (), OnLimit>(core::ptr::with_exposed_provenance(call))
                };
                call(id.0, bytes, argument);
                _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
                true
            }
        }
    }

    /// Sets the limit of a heap; what it has already stays. `is_inside`: no handler of this thread comes between.
    pub fn set_limit(&self, id: HeapId, limit: Option<usize>, is_inside: bool) -> Result<(), Refusal> {
        let tenant = self.find_live(id)?;
        // Under its lock: the entry is not another heap's before it is left.
        let _held = is_inside.then(|| tenant.rooms.lock());
        self.find_live(id)?;
        tenant.limit.store(limit.unwrap_or(usize::MAX), Ordering::Relaxed);
        Ok(())
    }
}

impl<O: Os> Tenants<O> {
    /// Ticks for which pages of some heap may have to wait, as it was ever asked for.
    pub fn longest_delay(&self) -> u32 {
        self.longest_delay.load(Ordering::Relaxed)
    }

    /// Whether a heap's memory is to wait as short as can be.
    pub fn is_prompt(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| tenant.delay.load(Ordering::Relaxed) == 1)
    }

    /// Has idle pages of a heap's spans wait so long; none: as long as the process's own.
    pub fn set_delay(&self, id: HeapId, delay: Option<Ticks>, is_inside: bool) -> Result<(), Refusal> {
        let tenant = self.find_live(id)?;
        let _held = is_inside.then(|| tenant.rooms.lock());
        self.find_live(id)?;
        let ticks = delay.map_or(0, |ticks| ticks.0.max(1));
        tenant.delay.store(ticks, Ordering::Relaxed);
        // For ever needs no ticks.
        if ticks != u32::MAX {
            self.longest_delay.fetch_max(ticks, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<O: Os> Tenant<O> {
    fn begin(&self, made: Made<'_>, now: u64) {
        self.children.store(0, Ordering::Relaxed);
        self.limit.store(made.limit.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.peak.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.made_at.store(now, Ordering::Relaxed);
        let on_limit = made.on_limit.map_or(0, |call| (call as *const ()).expose_provenance());
        self.on_limit.store(on_limit, Ordering::Relaxed);
        self.argument.store(made.argument, Ordering::Relaxed);
        self.in_on_limit.iter().for_each(|place| place.store(0, Ordering::Relaxed));
        self.delay.store(0, Ordering::Relaxed);
        self.late.store(0, Ordering::Relaxed);
        self.waiting_blocks.store(0, Ordering::Relaxed);
        self.waiting_bytes.store(0, Ordering::Relaxed);
        self.waiting_small.store(0, Ordering::Relaxed);
        self.zombie.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        // A name ends where its zeros begin.
        let bytes = made.name.iter().copied().take(NAME_BYTES - 1).chain(core::iter::repeat(0));
        self.name.iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
    }
}
