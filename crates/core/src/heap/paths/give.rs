//! Takes a block back: the work inside a slow path of free.

use crate::base::fault::{Fault, Misuse};
use crate::class::SizeClass;
use crate::heap::Heap;
use crate::os::Os;
use crate::pages::Mapping;

impl<O: Os> Heap<O> {
    /// Takes back any block that the program was given.
    pub(crate) fn put_back(&self, address: usize) -> Result<(), Misuse> {
        let class = self.pages.class_of(address);
        if class.is_small() {
            match self.pages.class_of_allocated(address) {
                Some(found) if found == class => {
                    self.stop_if_freed(class, address)?;
                    self.give_key(class, address);
                    self.cache.spill(self.below_cache(), class, address)
                }
                _ => Err(self.central.not_allocated(&self.pages, class, address)),
            }
        } else if class == SizeClass::LARGE {
            self.note_freed(address);
            self.large.free_looking(&self.os, &self.pages, address)
        } else if self.empties.owns(address) {
            self.empties.inspect(address).and_then(|empty| self.empties.take_back(empty))
        } else if self.guards.owns(address) {
            self.free_guarded(address)
        } else if self.emergency.bytes_of(address).is_some() {
            self.emergency.free(address);
            Ok(())
        } else {
            Err(Misuse::at(self.foreign_fault(address), address))
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

    /// Takes a guarded block back.
    fn free_guarded(&self, address: usize) -> Result<(), Misuse> {
        // Looked at first, so that the record of a block that stays live is not lost.
        self.guards.bytes_of(address)?;
        self.note_freed(address);
        self.guards.free(&self.os, address, self.trace(self.here()))
    }
}
