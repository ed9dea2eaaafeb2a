//! Blocks of the classes: out of a heap's cache or its spans, and back.

use super::spans::not_allocated;
use super::{HeapId, Refusal, Tenant, Tenants, is_still_of};
use crate::base::Fresh;
use crate::base::fault::{Fault, Misuse};
use crate::cache::Cache;
use crate::central::{Middle, Store};
use crate::class::SizeClass;
use crate::os::Os;

impl<O: Os> Tenants<O> {
    /// A block of a class. `own` is the cache of the process's own heap.
    pub fn take(
        &self,
        store: &Store<O>,
        own: &Cache<O>,
        id: HeapId,
        class: SizeClass,
    ) -> Result<Result<Fresh, Refusal>, Misuse> {
        let tenant = match self.find_live(id) {
            Ok(tenant) => tenant,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.take_of(store, own, tenant, id, class)
    }

    /// The same of a heap that was found.
    pub(super) fn take_of(
        &self,
        store: &Store<O>,
        own: &Cache<O>,
        tenant: &Tenant<O>,
        id: HeapId,
        class: SizeClass,
    ) -> Result<Result<Fresh, Refusal>, Misuse> {
        let rented = self.rented(store, tenant, id);
        // As long as the cache is in use the heap does not end, and the entry is no other's.
        let block = match tenant.use_cache().filter(|_| self.is_live(id)) {
            Some(in_use) => in_use.cache().refill(&rented, class)?,
            None => rented.take_one(class).address,
        };
        store.pages.prefault(&store.os);
        if rented.is_busy.get() {
            self.attach(store, own, tenant, id);
        }
        Ok(match block {
            0 => Err(rented.refusal.get().unwrap_or(Refusal::Memory)),
            address => Ok(Fresh { address, zeroed: rented.zeroed.get() }),
        })
    }

    /// Takes a block back into the heap that it belongs to; false where it belongs to none.
    pub fn give(&self, store: &Store<O>, own: &Cache<O>, address: usize) -> Result<bool, Misuse> {
        let Some((id, number)) = store.pages.tenant_of(address) else { return Ok(false) };
        let Some(tenant) = self.tenant(number) else { return Ok(false) };
        let class = store.pages.span(id).class();
        // As long as the cache is in use the heap does not end: a span that is the heap's now is so then.
        let is_still = || store.pages.tenant_of(address) == Some((id, number));
        let in_use = if class.is_small() { tenant.use_cache().filter(|_| is_still()) } else { None };
        let Some(in_use) = in_use else {
            let is_taken = self.give_past_cache(store, address)?;
            if tenant.is_busy(&store.pages) {
                self.attach(store, own, tenant, self.id_of(number));
            }
            return Ok(is_taken);
        };
        if store.pages.class_of_allocated(address).is_none() {
            return Err(not_allocated(store, class, address));
        }
        in_use.cache().spill(&self.rented(store, tenant, self.id_of(number)), class, address)?;
        Ok(true)
    }

    /// Bytes that may be used at an address in a heap of a tenant.
    /// None where it is the process's own by now.
    pub fn usable(&self, store: &Store<O>, address: usize) -> Result<Option<usize>, Misuse> {
        let id = loop {
            let Some((id, number)) = store.pages.tenant_of(address) else { return Ok(None) };
            if !self.tenant(number).is_some_and(Tenant::is_over) {
                break id;
            }
            // Its heap may have handed it over since, and ended.
            if is_still_of(&store.pages, id, number) {
                return Err(Misuse::at(Fault::FreeMemory, address));
            }
        };
        let span = store.pages.span(id);
        match span.class() {
            class if class.is_small() => match store.pages.class_of_allocated(address) {
                Some(_) => Ok(Some(class.block_bytes())),
                None => Err(not_allocated(store, class, address)),
            },
            _ if store.pages.address_of(span.start.get()) == address => Ok(Some(span.usable())),
            _ => Err(Misuse::at(Fault::InteriorPointer, address)),
        }
    }
}
