//! realloc, also with an alignment, and resizing without moving.

use super::sizes::stays_in;
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};
use crate::engine::Inside;
use crate::heap::{Heap, LARGEST_REQUEST};
use crate::os::Os;

/// A block that realloc makes longer than this gets a run of its own, with room behind it: it is likely to
/// grow again. From here on a copy costs more than the page heap, and a run wastes a quarter of itself at most.
const GROWS_ON_FROM: usize = 24 << 10;
/// If so many blocks live that grew so and are no longer than a class, they grow in turns: none grows into the room
/// behind it, and each leaves a hole that fits nobody. Then classes serve them, of which an eighth is wasted at most.
const GROWING_IN_TURNS: u64 = 64;

impl<O: Os> Heap<O> {
    /// A block of at least `bytes` with the contents of the one at `address`, which is then free; 0 where
    /// there is no memory, and the old block is as it was. `address` 0 means a new block.
    #[inline]
    pub fn reallocate(&self, address: usize, bytes: usize) -> usize {
        if address == 0 {
            return self.allocate(bytes);
        }
        match self.pages.class_of_allocated(address) {
            Some(class)
                if stays_in(class.block_bytes(), bytes)
                    && !self.is_watched()
                    && !self.keys.looks_freed(class, address) =>
            {
                address
            }
            _ => self.reallocate_aligned(address, MIN_ALIGN, bytes),
        }
    }

    /// Does the work of `reallocate` for a block that has to lie at a multiple of `align`, a power of two, whatever the
    /// old one was aligned to.
    pub fn reallocate_aligned(&self, address: usize, align: usize, bytes: usize) -> usize {
        if address == 0 {
            return self.allocate_aligned(align, bytes);
        }
        if self.is_tenants(address)
            && let Some(block) = self.reallocate_of_tenant(address, align, bytes)
        {
            return block;
        }
        if align <= MIN_ALIGN && self.stays_in_its_units(address, bytes) {
            return address;
        }
        self.check_start(address);
        let usable = self.usable_bytes(address);
        if bytes > LARGEST_REQUEST {
            return 0;
        }
        let was_large = self.pages.class_of(address) == SizeClass::LARGE;
        let is_aligned = self.is_aligned(address, align);
        if was_large && is_aligned && self.resizes_in_place(address, bytes) {
            return address;
        }
        // A guarded block always knows what was asked for, so it stays only where that does not change.
        let stays = if self.sources.guards.owns(address) { bytes == usable } else { stays_in(usable, bytes) };
        if stays && is_aligned {
            return if self.is_watched() { self.keep(address, align, bytes) } else { address };
        }
        let grows_on = bytes > usable && bytes > GROWS_ON_FROM;
        let block = match grows_on {
            _ if align > MIN_ALIGN => self.allocate_aligned(align, bytes),
            true => self.allocate_growing(bytes),
            false => self.allocate(bytes),
        };
        if block == 0 {
            // A block that shrinks can stay, as long as there is no memory to move it to.
            return if bytes <= usable && is_aligned { address } else { 0 };
        }
        let kept = usable.min(bytes);
        if was_large && bytes > LARGEST_BYTES {
            if !self.large.carry(&self.os, address, block, kept) {
                return if bytes <= usable && is_aligned { address } else { 0 };
            }
        } else {
            // SAFETY: both blocks are at least `kept` bytes long, and do not overlap.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    core::ptr::with_exposed_provenance::<u8>(address),
                    core::ptr::with_exposed_provenance_mut::<u8>(block),
                    kept,
                );
            }
        }
        self.free(address);
        block
    }

    /// A block that may stay where it is, for watchers: a free and an allocation. A block that is to be a sample, and
    /// was none, moves.
    #[cold]
    #[inline(never)]
    fn keep(&self, address: usize, align: usize, bytes: usize) -> usize {
        if !self.pages.class_of(address).is_small() {
            self.in_slow_path(|_| self.note_resized(address, bytes));
            return address;
        }
        let sample = if self.sample_is_due(bytes, align) { self.allocate_sample(bytes, align) } else { 0 };
        if sample == 0 {
            return address;
        }
        // SAFETY: both blocks are at least so long, and do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(
                core::ptr::with_exposed_provenance::<u8>(address),
                core::ptr::with_exposed_provenance_mut::<u8>(sample),
                bytes,
            );
        }
        self.free(address);
        sample
    }

    /// Gives the block at `address` another size where that can be without moving it, and where it lies at a
    /// multiple of `align`; false where it stays as it is.
    pub fn resize_in_place(&self, address: usize, align: usize, bytes: usize) -> bool {
        if let Some(id) = self.owner_heap(address) {
            let is_done = self.is_aligned(address, align) && self.resizes_of_tenant(address, bytes);
            if is_done {
                self.note_resized_of_tenant(id, address, bytes);
            }
            return is_done;
        }
        self.check_start(address);
        bytes <= LARGEST_REQUEST && self.is_aligned(address, align) && self.resizes_in_place(address, bytes)
    }

    /// Stops the process where `address` is in a small class and not the start of a block that somebody can
    /// have.
    fn check_start(&self, address: usize) {
        let class = self.pages.class_of(address);
        if !class.is_small() || self.is_aborting() {
            return;
        }
        if self.pages.class_of_allocated(address) != Some(class) {
            self.abort_for(self.central.not_allocated(&self.pages, class, address));
        } else if self.keys.looks_freed(class, address) {
            let outcome = self.in_slow_path(|inside| self.stop_if_freed(inside, class, address));
            outcome.into_iter().for_each(|outcome| self.obeyed(outcome));
        }
    }

    /// Whether many buffers grow in turns, of which one more is to be of so many bytes.
    fn grows_in_turns(&self, bytes: usize) -> bool {
        if bytes > LARGEST_BYTES {
            return false;
        }
        let large = self.pages.large();
        large.blocks >= GROWING_IN_TURNS && large.bytes < large.blocks * LARGEST_BYTES as u64
    }

    /// A block for one that grew, in a place where it can grow again without moving, if there is such a place.
    fn allocate_growing(&self, bytes: usize) -> usize {
        // Watchers count requests where they come in.
        if self.is_watched() {
            return self.allocate(bytes);
        }
        let grown = |inside: Inside<'_>| {
            if !self.is_started() || self.grows_in_turns(bytes) {
                return 0;
            }
            self.learn_limits(inside);
            self.large.allocate_growing(&self.os, &self.pages, bytes).map_or(0, |fresh| fresh.address)
        };
        match self.in_slow_path(grown) {
            None | Some(0) => self.allocate(bytes),
            Some(block) => block,
        }
    }

    /// Whether a large block has as many units as it would have with so many bytes: most steps of a buffer that grows by
    /// a little. Nothing is changed, so no lock is needed. Watchers are told of each size.
    fn stays_in_its_units(&self, address: usize, bytes: usize) -> bool {
        self.pages.class_of(address) == SizeClass::LARGE
            && bytes > GROWS_ON_FROM
            && !self.is_watched()
            && self.large.has_units_for(&self.pages, address, bytes)
    }

    /// A block of a class has no other size, and a large one is not kept for little.
    fn resizes_in_place(&self, address: usize, bytes: usize) -> bool {
        if self.pages.class_of(address) != SizeClass::LARGE || bytes <= GROWS_ON_FROM {
            return false;
        }
        let outcome = self.in_slow_path(|_| {
            let resized = self.large.resize_in_place(&self.os, &self.pages, address, bytes);
            if resized == Ok(true) {
                self.note_resized(address, bytes);
            }
            resized
        });
        self.obeyed(outcome.unwrap_or(Ok(false)))
    }
}
