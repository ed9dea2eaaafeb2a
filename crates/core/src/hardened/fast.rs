//! The usual way of a small block, where all is as it should be and nobody watches.
//!
//! Any other case leaves it before anything has changed: the ordinary way looks again, and says what it is. So nothing
//! here has words for a misuse but that of memory which was written to while it was free.

use super::fences::Fence;
use super::frame::{self, FRONT, Frame, Plain, TAIL_LEAST};
use super::states::State;
use super::zeros;
use super::{GUARDED_FROM, Hardened};
use crate::base::fault::Maker;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::os::Os;

impl<O: Os> Hardened<O> {
    /// A block whose memory the cache has, for one of the functions of `maker`; else 0.
    #[inline(always)]
    pub(super) fn make_fast(&self, bytes: usize, maker: Maker) -> usize {
        if bytes.wrapping_sub(1) >= GUARDED_FROM - 1 {
            return 0;
        }
        let class = SizeClass::for_small(FRONT + bytes + TAIL_LEAST);
        let start = self.heap.cache.front.pop(class);
        if start == 0 {
            return 0;
        }
        let frame = Frame { bytes, maker, laid: 0, asked: 0, fenced: Fence::None, behind: false, further: 0 };
        let block = self.heap.obeyed(self.lay_out(start, class, frame));
        self.heap.note_made(block, bytes)
    }

    /// Takes a block back that functions of `maker` made, and of which its owner says that it was asked for with `said` bytes,
    /// if anything; false where that is for the ordinary way.
    #[inline(always)]
    pub(super) fn take_back_fast(&self, address: usize, maker: Maker, said: Option<usize>) -> bool {
        let (heap, pages) = (&self.heap, &self.heap.pages);
        let Some(class) = pages.class_in_range(address) else { return false };
        let Some(mark) = self.mark_of(address) else { return false };
        let is_live = mark.state() == State::Live;
        if !is_live || !class.is_small() || !address.is_multiple_of(MIN_ALIGN) {
            return false;
        }
        if heap.is_aborting() || heap.sees_frees() {
            return false;
        }
        // SAFETY: a live block of a class has a frame, and its memory is that of the class.
        let plain = unsafe { frame::plain(self.secret(), address, maker, class.block_bytes()) };
        let Some(Plain { written, .. }) = plain.filter(|plain| said.is_none_or(|said| said == plain.bytes))
        else {
            return false;
        };
        // Of two threads that free a block at the same time one comes too late here, and is stopped by the ordinary way.
        if mark.take_back(State::Live).is_err() {
            return false;
        }
        let start = address - FRONT;
        // SAFETY: the block is the heap's again; nothing else of it was ever written.
        unsafe { zeros::clear(start, written) };
        heap.obeyed(self.let_wait(start, class));
        true
    }
}
