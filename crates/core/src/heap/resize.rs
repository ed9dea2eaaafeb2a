//! realloc.

use super::{Heap, LARGEST_REQUEST};
use crate::class::{LARGEST_BYTES, SizeClass};
use crate::os::Os;

/// A block that realloc makes longer than this gets a run of its own, with room behind it: it is likely to
/// grow again. From here on a copy costs more than the page heap, and a run wastes a quarter of itself at most.
const GROWS_ON_FROM: usize = 24 << 10;

impl<O: Os> Heap<O> {
    /// A block of at least `bytes` with the contents of the one at `address`, which is then free; 0 where
    /// there is no memory, and the old block is as it was. `address` 0 means a new block.
    pub fn reallocate(&self, address: usize, bytes: usize) -> usize {
        if address == 0 {
            return self.allocate(bytes);
        }
        self.check_start(address);
        let usable = self.usable_bytes(address);
        if bytes > LARGEST_REQUEST {
            return 0;
        }
        let was_large = self.pages.class_of(address) == SizeClass::LARGE;
        if was_large && bytes > GROWS_ON_FROM && self.resizes_in_place(address, bytes) {
            return address;
        }
        // A block stays where it is unless it is too small or less than half used. A guarded one always knows
        // what was asked for, so it stays only where that does not change.
        let stays = if self.guards.owns(address) { bytes == usable } else { bytes >= usable / 2 };
        if bytes <= usable && stays {
            return address;
        }
        let block = match bytes > usable && bytes > GROWS_ON_FROM {
            true => self.allocate_growing(bytes),
            false => self.allocate(bytes),
        };
        if block == 0 {
            // What shrinks can stay, as long as there is no memory to move it to.
            return if bytes <= usable { address } else { 0 };
        }
        let kept = usable.min(bytes);
        if was_large && bytes > LARGEST_BYTES {
            self.large.carry(&self.os, address, block, kept);
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

    /// Stops the process where `address` is in a small class and not the start of a block that somebody can
    /// have.
    fn check_start(&self, address: usize) {
        let class = self.pages.class_of(address);
        if class.is_small() && self.pages.class_of_given(address) != Some(class) && !self.is_stopped() {
            self.stop(self.central.not_given(&self.pages, class, address));
        }
    }

    /// A block for what grew: where it can grow again without moving, if there is such a place.
    fn allocate_growing(&self, bytes: usize) -> usize {
        // A profile counts requests where they come in.
        if self.is_profiling() {
            return self.allocate(bytes);
        }
        let grown = || {
            if !self.is_started() {
                return 0;
            }
            self.learn_limits();
            self.large.allocate_growing(&self.os, &self.pages, bytes).map_or(0, |fresh| fresh.address)
        };
        match self.in_slow_path(grown) {
            None | Some(0) => self.allocate(bytes),
            Some(block) => block,
        }
    }

    fn resizes_in_place(&self, address: usize, bytes: usize) -> bool {
        let outcome = self.in_slow_path(|| {
            let resized = self.large.resize_in_place(&self.os, &self.pages, address, bytes);
            if resized == Ok(true) {
                self.note_resized(address, bytes);
            }
            resized
        });
        self.obeyed(outcome.unwrap_or(Ok(false)))
    }
}
