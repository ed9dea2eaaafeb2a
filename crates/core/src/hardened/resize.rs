//! realloc, also with an alignment, and resizing without moving.

use super::frame::{self, Frame};
use super::zeros;
use super::{GUARDED_FROM, Hardened, Live, Of};
use crate::base::fault::{Maker, Misuse};
use crate::heap::HeapId;
use crate::os::Os;
use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

/// From here on a block may be sparse: pieces of a page that are all zero are not copied.
const SPARSE_FROM: usize = 1 << 20;
const PIECE: usize = 4096;

impl<O: Os> Hardened<O> {
    /// `Blocks::reallocate_aligned`.
    pub(super) fn resize(&self, address: usize, align: usize, bytes: usize) -> usize {
        if address == 0 {
            return self.allocate_at(align, bytes);
        }
        if self.is_outside(address) {
            return self.move_from_outside(address, align, bytes);
        }
        if self.heap.sources.empties.owns(address) {
            return self.reallocate_empty(address, align, bytes);
        }
        loop {
            let visit = self.visit_to_use(address);
            let live = self.heap.obeyed(self.owned(address));
            // The block stays in its heap, whatever heap the thread uses.
            let id = self.heap_of_block(address);
            if bytes > super::MOST_BYTES {
                return 0;
            }
            // A block stays where it is unless it is too small or less than half used.
            let may_stay = bytes >= live.frame.bytes / 2;
            if may_stay && self.resizes_in_place(&live, align, bytes) {
                return address;
            }
            let block = match bytes > live.frame.bytes && bytes >= GUARDED_FROM {
                true => self.allocate_growing(id, align, bytes),
                false => self.allocate_of(id, align, bytes),
            };
            if block != 0 {
                copy_to_zeros(address, block, live.frame.bytes.min(bytes));
                self.heap.obeyed(self.take(&live));
                return block;
            }
            // No heap waits for this thread while it waits for one.
            drop(visit);
            if id != HeapId::OWN && self.heap.is_handed_over(id, address) {
                continue;
            }
            let _visit = self.visit_to_use(address);
            // A block that shrinks can stay, as long as there is no memory to move it to.
            let stays = bytes <= live.frame.bytes && self.resizes_in_place(&live, align, bytes);
            return if stays { address } else { 0 };
        }
    }

    /// Another block for one of no bytes.
    fn reallocate_empty(&self, address: usize, align: usize, bytes: usize) -> usize {
        self.check_empty(address);
        let block = self.allocate_at(align, bytes);
        if block != 0 {
            self.heap.obeyed(self.take_back(address, Maker::Malloc));
        }
        block
    }

    pub(super) fn check_empty(&self, address: usize) {
        let empty = self.heap.obeyed(self.heap.sources.empties.inspect(address).map_err(Misuse::of_use));
        self.heap.obeyed(self.check_empty_maker(empty, Maker::Malloc));
    }

    /// The live block at `address`, which a function of malloc's family made.
    pub(super) fn owned(&self, address: usize) -> Result<Live, Misuse> {
        let live = self.inspect(address).map_err(Misuse::of_use)?;
        self.check_maker(&live, Maker::Malloc)?;
        Ok(live)
    }

    /// A block for what grew and is likely to grow again: with room for that, so that what is copied in all
    /// stays in proportion to what it grows to.
    fn allocate_growing(&self, id: HeapId, align: usize, bytes: usize) -> usize {
        match self.heap.obeyed(self.make_guarded(
            Of { id, after_limit: None },
            align,
            bytes,
            true,
            self.may_fence(),
        )) {
            0 => self.allocate_of(id, align, bytes),
            block => self.heap.note_made(block, bytes),
        }
    }

    fn move_from_outside(&self, address: usize, align: usize, bytes: usize) -> usize {
        let before = self.heap.sources.emergency.bytes_of(address).unwrap_or(0);
        let block = self.allocate_at(align, bytes);
        if block != 0 {
            copy(address, block, before.min(bytes));
        }
        block
    }

    /// False where the block can not have so many bytes, or lies at no multiple of `align`.
    pub(super) fn resizes_in_place(&self, live: &Live, align: usize, bytes: usize) -> bool {
        if !live.user.is_multiple_of(align) {
            return false;
        }
        let before = live.frame;
        let after = Frame { bytes, asked: align.trailing_zeros(), ..before };
        if !live.class.is_small() {
            if bytes <= before.bytes {
                self.shrink_guarded(live, bytes);
            } else if !self.grow_guarded(live, bytes) {
                return false;
            }
        } else if bytes > live.most_in_place() {
            return false;
        } else {
            // The old canary, and what is cut off: everything outside the bytes asked for is zero but for the
            // frame.
            let tail = self.room(live).min(frame::TAIL_MOST);
            let kept = before.bytes.min(bytes);
            // SAFETY: the block is the owner's, who called us, and is so long.
            unsafe { at_mut::<u8>(live.user + kept).write_bytes(0, before.bytes + tail - kept) };
        }
        self.reframe(live, after);
        if self.heap.is_watched() {
            // Watchers see a free and an allocation.
            self.heap.note_taken_back(live.user);
            self.heap.note_made(live.user, bytes);
        }
        true
    }
}

/// Copies to a fresh block, whose memory reads as zeros: zeros of the old one are not written and take no
/// memory.
fn copy_to_zeros(from: usize, to: usize, bytes: usize) {
    if bytes < SPARSE_FROM {
        return copy(from, to, bytes);
    }
    let mut done = 0;
    while done < bytes {
        let piece = PIECE.min(bytes - done);
        // Whole words only are looked at. SAFETY: the old block is so long.
        if !piece.is_multiple_of(8) || unsafe { zeros::first_nonzero(from + done, piece) }.is_some() {
            copy(from + done, to + done, piece);
        }
        done += piece;
    }
}

fn copy(from: usize, to: usize, bytes: usize) {
    // SAFETY: both blocks are at least so long, and do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(at::<u8>(from), at_mut::<u8>(to), bytes) };
}
