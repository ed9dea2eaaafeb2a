//! The ways of a block back: into the cache, and past it.

use crate::base::fault::{Fault, Misuse};
use crate::class::{SizeClass, TABLED_BYTES};
use crate::engine::Inside;
use crate::heap::Heap;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Takes a block back. 0 is no block and does nothing.
    #[inline(always)]
    pub fn free(&self, address: usize) {
        if !self.free_fast(address) {
            self.free_slow(address);
        }
    }

    /// Does the work of `free` if the cache has a place; false otherwise.
    #[inline(always)]
    pub fn free_fast(&self, address: usize) -> bool {
        match self.pages.class_of_allocated(address) {
            Some(class) => self.keys.arrive(class, address, || self.cache.front.push(class, address)),
            None => false,
        }
    }

    /// Does the work of `free_fast` for an owner who counts bytes: those of the block, 0 where it is false.
    #[inline(always)]
    pub fn free_fast_bytes(&self, address: usize) -> usize {
        match self.pages.class_of_allocated(address) {
            Some(class) if self.keys.arrive(class, address, || self.cache.front.push(class, address)) => {
                class.block_bytes()
            }
            _ => 0,
        }
    }

    /// Does the work of `free_fast` for a block that the caller says was asked for with `bytes`; false also if that
    /// cannot be seen at once.
    #[inline(always)]
    pub fn free_sized_fast(&self, address: usize, bytes: usize) -> bool {
        match self.pages.class_of_allocated(address) {
            // A block that shrank in place may be larger than a new one of its size would be.
            Some(class) if bytes <= TABLED_BYTES && SizeClass::tabled(bytes) <= class => {
                self.keys.arrive(class, address, || self.cache.front.push(class, address))
            }
            _ => false,
        }
    }

    /// Does the work of `free_sized_fast` as `free_fast_bytes` does that of `free_fast`.
    #[inline(always)]
    pub fn free_sized_fast_bytes(&self, address: usize, bytes: usize) -> usize {
        match self.pages.class_of_allocated(address) {
            Some(class)
                if bytes <= TABLED_BYTES
                    && SizeClass::tabled(bytes) <= class
                    && self.keys.arrive(class, address, || self.cache.front.push(class, address)) =>
            {
                class.block_bytes()
            }
            _ => 0,
        }
    }

    /// Does the work of `free` if the cache has no place, or the address is not one of a block of a class. The steps of
    /// `allocate_slow`, mirrored:
    ///
    /// 1. A thread without sequences looks into its cache under a lock, and into nothing else.
    /// 2. The thread is noted as inside (`in_slow_path`). A signal handler that interrupted it there leaves the block for
    ///    later; in a process that aborts nothing is freed.
    /// 3. The kind of the address decides the way: a block of a class, a large one, a guarded sample, emergency memory;
    ///    or it is a misuse, and which one (`put_back`).
    /// 4. The cache looks once more; it asks for room, and gives a batch to the transfer array, else to the spans, of which
    ///    one whose last block this was goes back to the pages (`Cache::spill`).
    /// 5. With no lock held any more, upkeep does what is due (`Upkeep::after_slow_path`).
    /// 6. The thread is outside again, frees what handlers had to leave, and tells the program of a passed limit.
    /// 7. A misuse ends the process here, where nothing is held (`obeyed`).
    #[cold]
    #[inline(never)]
    pub fn free_slow(&self, address: usize) {
        // The fast path is off.
        if self.recording.is_on() && self.free_short(address) {
            return;
        }
        let short_way = || match self.pages.class_of_allocated(address) {
            Some(class) => self.keys.arrive(class, address, || self.cache.push_locked(class, address)),
            None => false,
        };
        if address == 0 || (!self.is_aborting() && short_way()) {
            return;
        }
        let outcome = self.in_slow_path(|inside| self.put_back(inside, address));
        match outcome {
            Some(outcome) => self.obeyed(outcome),
            None => self.free_in_emergency(address),
        }
    }

    /// Puts a small block into the cache by a way that needs no lock of the heap; false where there is none.
    #[inline]
    fn free_short(&self, address: usize) -> bool {
        let push = |class| self.keys.arrive(class, address, || self.cache.push_behind(class, address));
        let is_put = |class: SizeClass| class.is_small() && push(class);
        !self.is_aborting() && self.pages.class_of_allocated(address).is_some_and(is_put)
    }

    /// Takes back any block that the program was given.
    pub(crate) fn put_back(&self, inside: Inside<'_>, address: usize) -> Result<(), Misuse> {
        // Blocks of classes are no samples.
        if !self.pages.class_of(address).is_small() {
            self.note_freed(address);
            self.stop_if_freed_of_tenant(address)?;
        }
        self.engine.give(inside, address, |class| {
            self.stop_if_freed(inside, class, address)?;
            self.keys.put(class, address);
            Ok(())
        })
    }

    /// Stops where a block of a tenant's heap was freed before.
    fn stop_if_freed_of_tenant(&self, address: usize) -> Result<(), Misuse> {
        if !self.is_tenants(address) || self.pages.class_of_allocated(address).is_none() {
            return Ok(());
        }
        let Some((span, _)) = self.pages.tenant_of(address) else { return Ok(()) };
        let class = self.pages.span(span).class();
        if self.keys.looks_freed(class, address)
            && self.tenants.is_free(&self.store, class, address)?
            && self.keys.looks_freed(class, address)
        {
            let block = Some((address, class.block_bytes()));
            return Err(Misuse { block, ..Misuse::at(Fault::DoubleFree, address) });
        }
        self.keys.put(class, address);
        Ok(())
    }

    /// Stops where a block was freed before.
    pub(crate) fn stop_if_freed(&self, _: Inside<'_>, class: SizeClass, block: usize) -> Result<(), Misuse> {
        if !self.keys.looks_freed(class, block) {
            return Ok(());
        }
        self.cache.look_for(&self.store, class, block)?;
        // Without the key by now: another thread was given the block meanwhile.
        if !self.cache.is_free(&self.store, class, block) && self.keys.looks_freed(class, block) {
            return Ok(());
        }
        Err(Misuse { block: Some((block, class.block_bytes())), ..Misuse::at(Fault::DoubleFree, block) })
    }
}
