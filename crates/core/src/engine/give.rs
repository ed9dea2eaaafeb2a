//! Takes a block back: the work inside a slow path of free; and whose block it is.

use super::{Engine, Inside};
use crate::base::fault::{Fault, Misuse};
use crate::class::SizeClass;
use crate::os::Os;
use crate::pages::Mapping;
use crate::sources::Source;

/// The floor that an address belongs to.
pub(crate) enum Owner<'a, O: Os> {
    /// It lies in a span of blocks of a class.
    Class(SizeClass),
    /// It lies in a run of pages.
    Large,
    /// It lies in a span of a tenant's heap.
    Tenant,
    Source(&'a dyn Source<O>),
    Nobody,
}

impl<O: Os> Engine<O> {
    pub(crate) fn owner_of(&self, address: usize) -> Owner<'_, O> {
        let class = self.pages.class_of(address);
        if class.is_small() {
            Owner::Class(class)
        } else if class == SizeClass::LARGE {
            if self.is_tenants(address) {
                return Owner::Tenant;
            }
            // Another thread may have handed it to the process's own heap meanwhile.
            match self.pages.class_of(address) {
                class if class.is_small() => Owner::Class(class),
                _ => Owner::Large,
            }
        } else {
            self.sources.owner_of(address).map_or(Owner::Nobody, Owner::Source)
        }
    }

    /// Whether an address lies in a span of a tenant's heap.
    #[inline]
    pub(crate) fn is_tenants(&self, address: usize) -> bool {
        self.tenants.has_any() && self.pages.tenant_of(address).is_some()
    }

    /// Takes back any block that the program was given. `arriving` is asked of a block of a class that its span gave out.
    pub(crate) fn give(
        &self,
        _: Inside<'_>,
        address: usize,
        arriving: impl FnOnce(SizeClass) -> Result<(), Misuse>,
    ) -> Result<(), Misuse> {
        match self.owner_of(address) {
            Owner::Class(class) => match self.pages.class_of_allocated(address) {
                Some(found) if found == class => {
                    arriving(class)?;
                    self.cache.spill(&self.store, class, address)
                }
                _ => Err(self.central.not_allocated(&self.pages, class, address)),
            },
            Owner::Large => self.large.free_looking(&self.os, &self.pages, address),
            Owner::Tenant => match self.tenants.give(&self.store, &self.cache, address)? {
                true => Ok(()),
                false => self.give_moved(address),
            },
            Owner::Source(source) => source.free(&self.os, address, &|| self.trace(self.here())),
            Owner::Nobody => Err(Misuse::at(self.foreign_fault(address), address)),
        }
    }

    /// Takes back a block that another thread has just made one of the process's own heap.
    #[cold]
    fn give_moved(&self, address: usize) -> Result<(), Misuse> {
        match self.pages.class_of_allocated(address) {
            Some(class) if class.is_small() => self.central.give_to_spans(&self.pages, class, &[address]),
            _ => self.large.free(&self.pages, address),
        }
    }

    pub(crate) fn foreign_fault(&self, address: usize) -> Fault {
        if self.large.was_freed(address) {
            return Fault::DoubleFree;
        }
        let mut fault = Fault::ForeignPointer;
        self.pages.each_mapping(|mapping, start, bytes| {
            if mapping == Mapping::Blocks && address.wrapping_sub(start) < bytes {
                fault = Fault::FreeMemory;
            }
        });
        fault
    }
}
