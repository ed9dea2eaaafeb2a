//! The usual way of a small block, where all is as it should be and nobody watches.
//!
//! Any other case leaves it before anything has changed: the ordinary way looks again, and says what it is. So nothing
//! here has words for a misuse but that of memory which was written to while it was free.
//!
//! Blocks of up to `SHORT_BYTES` have a copy of it that calls nothing: all else is a last step, so that it saves no
//! registers.

use super::frame::{self, FRONT, Frame, Plain, TAIL_LEAST};
use super::states::{Mark, State, handed_out_twice};
use super::zeros;
use super::{GUARDED_FROM, Hardened};
use crate::base::fault::Maker;
use crate::cache::NOT_EXCHANGED;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::heap::HeapId;
use crate::os::Os;
use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

/// Memory of a block that takes the shortest way: less than a page, and cleared without a call.
const SHORT_BYTES: usize = 256;
const SHORT: SizeClass = SizeClass::computed(SHORT_BYTES);

impl<O: Os> Hardened<O> {
    /// A block whose memory the cache has, for one of the functions of `maker`; else 0.
    #[inline(always)]
    pub(super) fn make_fast(&self, bytes: usize, maker: Maker) -> usize {
        const MOST: usize = SHORT_BYTES - FRONT - TAIL_LEAST;
        let secret = self.known_secret();
        let is_direct = self.heap.cache.front.is_direct();
        if bytes.wrapping_sub(1) >= MOST || secret == 0 || !is_direct {
            return self.make_longer(bytes, maker);
        }
        let class = SizeClass::tabled(FRONT + bytes + TAIL_LEAST);
        let start = self.heap.cache.front.pop_ahead(class);
        if start == 0 {
            return 0;
        }
        let (user, length) = (start + FRONT, class.block_bytes());
        // SAFETY: a free block that the cache gave us; none is shorter than a frame.
        if !unsafe { zeros::is_zero(start, length) } {
            self.stop_changed(start, class)
        }
        let Some(mark) = self.mark_of(user) else {
            return self.make_unmarked(start, class, bytes, maker);
        };
        // SAFETY: the block is ours and so long.
        unsafe { frame::write_usual(secret, user, bytes, maker, length - FRONT - bytes) };
        // Last: a child, and the end of a heap, find the frame of each live block.
        if !mark.hand_out(State::Live) {
            self.stop_twice(user)
        }
        user
    }

    #[inline(never)]
    fn make_longer(&self, bytes: usize, maker: Maker) -> usize {
        if bytes.wrapping_sub(1) >= GUARDED_FROM - 1
            || !self.heap.cache.front.is_direct() && self.heap.scope() != HeapId::OWN
        {
            return 0;
        }
        let class = SizeClass::for_small(FRONT + bytes + TAIL_LEAST);
        let start = self.heap.cache.front.pop_ahead(class);
        if start == 0 {
            return 0;
        }
        let block = self.heap.obeyed(self.lay_out(start, class, Frame::usual(bytes, maker)));
        self.heap.note_made(block, bytes)
    }

    #[cold]
    #[inline(never)]
    fn stop_twice(&self, user: usize) -> ! {
        self.heap.abort_for(handed_out_twice(user))
    }

    /// A block whose mark cannot be had: the ordinary way does the same.
    #[cold]
    #[inline(never)]
    fn make_unmarked(&self, start: usize, class: SizeClass, bytes: usize, maker: Maker) -> usize {
        self.heap.obeyed(self.lay_out(start, class, Frame::usual(bytes, maker)))
    }

    /// The end of a process that wrote to a free block.
    #[cold]
    #[inline(never)]
    fn stop_changed(&self, start: usize, class: SizeClass) -> ! {
        self.heap.abort_for(self.changed_after_free(start, class))
    }

    /// Takes a block back that functions of `maker` made, and of which its owner says that it was asked for with `said` bytes,
    /// if anything; false where that is for the ordinary way.
    #[inline(always)]
    pub(super) fn take_back_fast(&self, address: usize, maker: Maker, said: Option<usize>) -> bool {
        // Null is nothing to free, and comes often.
        let Some(usual) = self.usual(address, maker) else { return address == 0 };
        let bytes = usual.plain.bytes;
        if said.is_some_and(|said| said != bytes) || self.heap.sees_frees() {
            return false;
        }
        self.retire_usual(address, usual)
    }

    /// The block at an address, if it is a live small one of `maker` without an alignment, all of whose frame is as it was
    /// written, and nobody ends the process.
    #[inline(always)]
    fn usual(&self, address: usize, maker: Maker) -> Option<Usual<'_>> {
        let class = self.heap.pages.class_in_range(address)?;
        let mark = self.mark_of(address)?;
        let is_live = mark.state() == State::Live;
        if !is_live || !class.is_small() || !address.is_multiple_of(MIN_ALIGN) || self.heap.is_aborting() {
            return None;
        }
        // SAFETY: a live block of a class has a frame, and its memory is that of the class. The secret was drawn for that.
        let plain = unsafe { frame::plain(self.known_secret(), address, maker, class.block_bytes()) }?;
        Some(Usual { class, mark, plain })
    }

    /// Clears a block and lets it wait; false where another thread freed it since it was looked at.
    #[inline(always)]
    fn retire_usual(&self, address: usize, usual: Usual<'_>) -> bool {
        let Usual { class, mark, plain } = usual;
        // Of two threads that free a block at the same time one comes too late here, and is stopped by the ordinary way.
        if mark.take_back(State::Live).is_err() {
            return false;
        }
        let start = address - FRONT;
        if class > SHORT {
            return self.retire_longer(start, class, plain.written);
        }
        // SAFETY: the block is the heap's again; nothing else of it was ever written.
        unsafe { zeros::clear_short(start, plain.written) };
        let front = &self.heap.cache.front;
        let leaving = self.quarantine.exchange_own(front, class, start);
        if leaving <= NOT_EXCHANGED {
            return self.let_wait_or_count(start, class, leaving);
        }
        // SAFETY: a free block that quarantine gave us.
        if !unsafe { zeros::is_zero(leaving, class.block_bytes()) } {
            self.stop_changed(leaving, class)
        }
        if !front.push(class, leaving) {
            return self.pass_on(leaving);
        }
        true
    }

    #[inline(never)]
    fn retire_longer(&self, start: usize, class: SizeClass, written: usize) -> bool {
        // SAFETY: as in `retire_usual`.
        unsafe { zeros::clear(start, written) };
        self.heap.obeyed(self.let_wait(start, class));
        true
    }

    /// A block that took an empty place of its quarantine, or found no way into it.
    #[cold]
    #[inline(never)]
    fn let_wait_or_count(&self, start: usize, class: SizeClass, leaving: usize) -> bool {
        match leaving {
            0 => self.heap.quarantined.count(class, true),
            _ => self.heap.obeyed(self.let_wait(start, class)),
        }
        true
    }

    /// Gives a block that left quarantine back to the heap, where the cache is full.
    #[cold]
    #[inline(never)]
    fn pass_on(&self, leaving: usize) -> bool {
        self.heap.os.unseen(|| self.heap.free_slow(leaving));
        true
    }

    /// The bytes that a usual block of malloc's family was asked for with.
    #[inline]
    pub(super) fn usable_fast(&self, address: usize) -> Option<usize> {
        self.usual(address, Maker::Malloc).map(|usual| usual.plain.bytes)
    }

    /// `realloc` of a usual block that no alignment is asked for: it stays, or moves to a usual block. 0 where that is for the
    /// ordinary way.
    #[inline]
    pub(super) fn resize_fast(&self, address: usize, bytes: usize) -> usize {
        if bytes.wrapping_sub(1) >= GUARDED_FROM - 1 {
            return 0;
        }
        let Some(usual) = self.usual(address, Maker::Malloc) else {
            return if address == 0 { self.make_fast(bytes, Maker::Malloc) } else { 0 };
        };
        if self.heap.sees_frees() || self.heap.is_watched() {
            return 0;
        }
        let before = usual.plain.bytes;
        let room = usual.class.block_bytes() - FRONT;
        if bytes >= before / 2 && bytes + TAIL_LEAST <= room {
            let kept = before.min(bytes);
            // The old canary, and what is cut off. SAFETY: the block is the owner's, who called us, and is so long.
            unsafe {
                at_mut::<u8>(address + kept).write_bytes(0, usual.plain.written - FRONT - kept);
                frame::write(self.secret(), address, Frame::usual(bytes, Maker::Malloc), room - bytes);
            }
            return address;
        }
        let block = self.make_fast(bytes, Maker::Malloc);
        if block == 0 {
            return 0;
        }
        // SAFETY: both blocks are at least so long, and do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(at::<u8>(address), at_mut::<u8>(block), before.min(bytes));
        }
        if !self.retire_usual(address, usual) {
            // Another thread freed it meanwhile.
            self.heap.obeyed(self.take_back(address, Maker::Malloc));
        }
        block
    }
}

/// The findings of `usual`.
struct Usual<'a> {
    class: SizeClass,
    mark: Mark<'a>,
    plain: Plain,
}
