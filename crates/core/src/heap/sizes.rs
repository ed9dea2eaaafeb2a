//! The size of a block, as it is or would be.

use crate::base::fault::{Fault, Misuse};
use crate::central::locate;
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass, UNIT_BYTES};
use crate::engine::Owner;
use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Stops the process unless the block at `address` can have been asked for with this size and alignment, or
    /// nobody is to look.
    #[inline]
    pub fn check_size(&self, address: usize, bytes: usize, align: usize) {
        if address != 0 && !self.fits(address, bytes, align) && self.sizes_count() {
            self.abort_for(Misuse { block: self.block_of(address), ..Misuse::at(Fault::WrongSize, address) });
        }
    }

    /// False where a free may say any size and alignment.
    pub(crate) fn sizes_count(&self) -> bool {
        self.options.is_on(OptionId::wrong_size_check)
    }

    pub(crate) fn fits(&self, address: usize, bytes: usize, align: usize) -> bool {
        match self.owner_of(address) {
            Owner::Class(class) => {
                let meant = if align <= MIN_ALIGN {
                    (bytes <= LARGEST_BYTES).then(|| SizeClass::for_small(bytes))
                } else {
                    SizeClass::for_aligned(bytes, align)
                };
                // A block that shrank in place may be larger than a new one of its size would be.
                meant.is_some_and(|meant| meant <= class)
            }
            Owner::Large => self.large.fits(&self.pages, address, bytes),
            Owner::Tenant => bytes <= self.usable_bytes(address),
            Owner::Source(source) => {
                source.fits(address, bytes, &|asked| Self::block_bytes_for(asked, align))
            }
            // Not a block of ours: `free` says what it is.
            Owner::Nobody => true,
        }
    }

    /// Bytes that may be used at the start of the block at `address`, 0 for 0.
    pub fn usable_bytes(&self, address: usize) -> usize {
        self.obeyed(self.usable(address))
    }

    /// The same for one who is about to free the block: 0 where it is none, which the free then finds.
    pub fn known_bytes(&self, address: usize) -> usize {
        self.usable(address).unwrap_or(0)
    }

    fn usable(&self, address: usize) -> Result<usize, Misuse> {
        if address == 0 {
            return Ok(0);
        }
        match self.owner_of(address) {
            Owner::Class(class) => Ok(class.block_bytes()),
            Owner::Large => self.large.usable(&self.pages, address),
            Owner::Tenant => match self.tenants.usable(&self.store, address) {
                Ok(None) => self.usable(address),
                usable => usable.map(|bytes| bytes.unwrap_or(0)),
            },
            Owner::Source(source) => source.bytes_at(address),
            Owner::Nobody => Err(Misuse::at(self.foreign_fault(address), address).of_use()),
        }
    }

    /// Whether a block of the process's own heap starts at `address` and has a run to itself.
    pub fn has_own_run(&self, address: usize) -> bool {
        matches!(self.owner_of(address), Owner::Large) && self.large.usable(&self.pages, address).is_ok()
    }

    /// False also for a block that lies at a multiple by chance: a block that was asked for with that alignment would
    /// be of another class, which a sized free that names it looks for.
    pub(super) fn is_aligned(&self, address: usize, align: usize) -> bool {
        if align <= MIN_ALIGN {
            return true;
        }
        let class = self.pages.class_of_block(address);
        let is_by_chance = class.is_small() && (align > UNIT_BYTES || class.block_bytes() & (align - 1) != 0);
        address & (align - 1) == 0 && !is_by_chance
    }

    /// Bytes that a block for `bytes` would have.
    pub fn block_bytes_for(bytes: usize, align: usize) -> usize {
        match SizeClass::for_aligned(bytes, align.max(MIN_ALIGN)) {
            Some(class) => class.block_bytes(),
            None => bytes.checked_next_multiple_of(UNIT_BYTES).unwrap_or(0),
        }
    }

    /// Start and bytes of the block that `address` lies in, as far as it can be known.
    pub(crate) fn block_of(&self, address: usize) -> Option<(usize, usize)> {
        match self.owner_of(address) {
            Owner::Class(_) | Owner::Tenant => match self.pages.class_of_block(address) {
                class if class.is_small() => match locate(&self.pages, class, address) {
                    Ok(_) => Some((address, class.block_bytes())),
                    Err(misuse) => misuse.block,
                },
                _ => None,
            },
            Owner::Source(source) => source.block_at(address),
            Owner::Large | Owner::Nobody => None,
        }
    }
}

/// A block stays where it is unless it is too small or less than half used.
pub(super) fn stays_in(usable: usize, bytes: usize) -> bool {
    bytes <= usable && bytes >= usable / 2
}
