//! The hardened policy: a heap that checks every block at every step.
//!
//! Owns what is known about each block beside the heap itself: its state, its frame, the quarantine. Promises
//! that a free of anything but a live block, by the wrong function or with the wrong size, is stopped at
//! once; that a write behind or before a block is found when the block is freed, one to a freed block before
//! its memory is handed out again; and that freed memory holds nothing. `exports` calls it where a library is
//! built with it, by `Blocks`; sits on `Heap`. "Hardened" in docs/design tells more.

mod blocks;
mod budget;
mod copies;
mod frame;
mod guarded;
mod quarantine;
mod resize;
mod states;
mod stuck;

use super::{Heap, Hooks, LARGEST_REQUEST};
use crate::base::fault::{Fault, Maker, Misuse};
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};
use crate::options::OptionId;
use crate::os::Os;
use crate::watch::{Empty, Probes, Probing};
use budget::Budget;
use core::ptr::with_exposed_provenance_mut as at_mut;
use frame::{FRONT, Frame, TAIL_LEAST};
use guarded::Runs;
use quarantine::Quarantine;
use states::State;
use stuck::Stuck;

/// From here on a block has pages of its own between pages that nobody may touch.
const GUARDED_FROM: usize = 32 << 10;
/// No block of a class that waits in a long quarantine is larger: one below `GUARDED_FROM`, with its frame.
const MOST_SMALL: usize = 48 << 10;
/// No request is larger.
const MOST_BYTES: usize =
    if LARGEST_REQUEST < frame::MOST_BYTES { LARGEST_REQUEST } else { frame::MOST_BYTES };
/// A small block is aligned to this at most.
const MOST_SMALL_ALIGN: usize = 4096;

/// A heap whose blocks are checked. A new one is ready to use, as a `Heap` is.
pub struct Hardened<O: Os> {
    heap: Heap<O>,
    secret: AtomicU64,
    quarantine: Quarantine,
    runs: Runs,
    stuck: Stuck,
    budget: Budget,
    /// Blocks with guard pages now.
    fenced: AtomicUsize,
}

/// A block that is live, and what its frame says.
#[derive(Clone, Copy)]
struct Live {
    user: usize,
    class: SizeClass,
    frame: Frame,
}

impl<O: Os> Hardened<O> {
    /// Where the heap of this policy lies, of one that lies there.
    pub const fn heap_of(policy: *const Self) -> *const Heap<O> {
        policy.wrapping_byte_add(core::mem::offset_of!(Self, heap)).cast()
    }

    pub const fn new(os: O) -> Self {
        Self::over(Heap::new(os))
    }

    /// One that a profile can be taken of.
    pub const fn with_hooks(os: O, hooks: Hooks) -> Self {
        Self::over(Heap::with_hooks(os, hooks))
    }

    const fn over(mut heap: Heap<O>) -> Self {
        heap.pages.keep_marks();
        Hardened {
            heap,
            secret: AtomicU64::new(0),
            quarantine: Quarantine::new(),
            runs: Runs::new(),
            stuck: Stuck::new(),
            budget: Budget::new(),
            fenced: AtomicUsize::new(0),
        }
    }

    /// The same heap, with probes for tracers.
    pub const fn with_probes(mut self, probes: Probes) -> Self {
        self.heap.probing = Probing::of(probes);
        self
    }

    fn make(&self, align: usize, bytes: usize) -> Result<usize, Misuse> {
        let is_small = bytes < GUARDED_FROM && align <= MOST_SMALL_ALIGN;
        if !is_small {
            let fenced = self.may_fence();
            if fenced || align > MOST_SMALL_ALIGN || bytes > LARGEST_BYTES - MOST_SMALL_ALIGN - TAIL_LEAST {
                return self.make_guarded(align, bytes, false, fenced);
            }
        }
        let frame = self.frame_for(align, bytes);
        let start = self.small_memory(align.max(MIN_ALIGN), frame.front() + bytes + TAIL_LEAST);
        let class = self.heap.pages.class_of(start);
        if start == 0 || !class.is_small() {
            // Emergency memory has no frame.
            return Ok(start);
        }
        self.lay_out(start, class, frame)
    }

    /// Makes a block of free memory of a class.
    #[inline(always)]
    fn lay_out(&self, start: usize, class: SizeClass, frame: Frame) -> Result<usize, Misuse> {
        self.is_untouched(start, class)?;
        let (front, bytes) = (frame.front(), frame.bytes);
        let user = start + front;
        if !self.hand_out(user)? {
            self.heap.free(start);
            return Ok(0);
        }
        // SAFETY: the block is ours and so long.
        unsafe { frame::write(self.secret(), user, frame, class.block_bytes() - front - bytes) };
        Ok(user)
    }

    /// Whether the next block may have guards: each costs system calls, so only so many a second do.
    fn may_fence(&self) -> bool {
        self.budget.takes_one(self.heap.options.get(OptionId::guard_budget), || self.heap.os.now())
    }

    /// Free blocks are zero from their first byte to their last.
    fn is_untouched(&self, start: usize, class: SizeClass) -> Result<(), Misuse> {
        // SAFETY: a free block that the caller has taken out of everybody's reach.
        match unsafe { frame::first_nonzero(start, class.block_bytes()) } {
            Some(changed) => Err(Misuse {
                block: Some((start, class.block_bytes())),
                ..Misuse::at(Fault::WriteAfterFree, changed)
            }),
            None => Ok(()),
        }
    }

    /// A block of a class at a multiple of `align`; 0 for what is larger. Never a sample: those are no small blocks.
    fn small_memory(&self, align: usize, bytes: usize) -> usize {
        let Some(class) = SizeClass::for_aligned(bytes, align) else { return 0 };
        let block = self.heap.cache.front.pop(class);
        if block != 0 {
            return block;
        }
        self.heap
            .in_slow_path(|| self.heap.allocate_class(class, bytes))
            .unwrap_or_else(|| self.heap.allocate_in_emergency(bytes, align))
    }

    fn frame_for(&self, align: usize, bytes: usize) -> Frame {
        let asked = align.max(1).trailing_zeros();
        Frame { bytes, maker: Maker::Malloc, laid: asked, asked, fenced: false }
    }

    /// Marks a block live; false where there is no memory for the mark.
    fn hand_out(&self, user: usize) -> Result<bool, Misuse> {
        let Some(mark) = self.heap.pages.mark_of(user) else { return Ok(false) };
        if State::hand_out(mark) {
            return Ok(true);
        }
        Err(Misuse::at(Fault::HandedOutTwice, user))
    }

    fn offset_of(&self, address: usize) -> usize {
        address.wrapping_sub(self.heap.pages.address_of(0))
    }

    fn secret(&self) -> u64 {
        match self.secret.load(Ordering::Relaxed) {
            0 => self.draw_secret(),
            secret => secret,
        }
    }

    #[cold]
    fn draw_secret(&self) -> u64 {
        let drawn = self.heap.os.random() | 1;
        match self.secret.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => drawn,
            Err(other) => other,
        }
    }

    /// True for null, for emergency memory, and for everything once the process aborts.
    fn is_outside(&self, address: usize) -> bool {
        address == 0
            || self.heap.is_aborting()
            || (self.heap.pages.class_of(address) == SizeClass::NONE
                && self.heap.emergency.bytes_of(address).is_some())
    }

    fn take_back(&self, address: usize, by: Maker) -> Result<(), Misuse> {
        if self.heap.empties.owns(address) {
            let empty = self.heap.empties.inspect(address)?;
            self.check_empty_maker(empty, by)?;
            return self.heap.empties.take_back(empty);
        }
        let live = self.inspect(address)?;
        self.check_maker(&live, by)?;
        // Of two threads that free a block at the same time one comes too late here.
        State::take_back(self.heap.pages.mark_of(address)).map_err(|state| self.no_block(address, state))?;
        self.heap.note_taken_back(address);
        if live.class.is_small() { self.retire(&live) } else { self.retire_guarded(&live) }
    }

    fn check_maker(&self, live: &Live, by: Maker) -> Result<(), Misuse> {
        if live.frame.maker == by || !self.makers_count() {
            return Ok(());
        }
        Err(self.about(Fault::WrongFunction { made: live.frame.maker, freed: by }, live))
    }

    fn check_empty_maker(&self, empty: Empty, by: Maker) -> Result<(), Misuse> {
        let made = empty.maker();
        if made == by || !self.makers_count() {
            return Ok(());
        }
        Err(empty.misuse(Fault::WrongFunction { made, freed: by }))
    }

    /// False where a block may be freed by another family of functions than made it.
    fn makers_count(&self) -> bool {
        self.heap.options.is_on(OptionId::wrong_function_check)
    }

    fn about(&self, fault: Fault, live: &Live) -> Misuse {
        Misuse { block: Some((live.user, live.frame.bytes)), ..Misuse::at(fault, live.user) }
    }

    /// The live block at `address`, its frame intact.
    fn inspect(&self, address: usize) -> Result<Live, Misuse> {
        let state = State::of(self.heap.pages.mark_of(address));
        let class = self.heap.pages.class_of(address);
        if state != State::Live || class == SizeClass::NONE || !address.is_multiple_of(MIN_ALIGN) {
            return Err(self.no_block(address, state));
        }
        let secret = self.secret();
        // SAFETY: a live block has a frame.
        let frame = unsafe { frame::read(secret, address) }.map_err(|changed| Misuse {
            block: Some((address, self.most_bytes(address, class))),
            ..Misuse::at(Fault::Underflow, changed)
        })?;
        let live = Live { user: address, class, frame };
        // SAFETY: the frame was written with this room.
        match unsafe { frame::changed_tail(secret, address, frame, self.room(&live)) } {
            Some(changed) => Err(Misuse { address: changed, ..self.about(Fault::Overflow, &live) }),
            None => Ok(live),
        }
    }

    /// The bytes that a block whose frame is lost had at most.
    fn most_bytes(&self, address: usize, class: SizeClass) -> usize {
        match self.heap.block_of(address + 1) {
            Some((start, bytes)) if class.is_small() => (start + bytes).saturating_sub(address),
            _ => 0,
        }
    }

    /// Bytes of the block's memory behind those that were asked for.
    fn room(&self, live: &Live) -> usize {
        let after = live.frame.bytes;
        if live.class.is_small() {
            live.class.block_bytes().saturating_sub(live.frame.front() + after)
        } else {
            self.guard_of(live).wrapping_sub(live.user + after)
        }
    }

    /// What is wrong with an address that is not that of a live block.
    #[cold]
    fn no_block(&self, address: usize, state: State) -> Misuse {
        let class = self.heap.pages.class_of(address);
        let fault = match state {
            _ if class == SizeClass::NONE && self.offset_of(address) >= self.heap.pages.mapped_bytes() => {
                Fault::ForeignPointer
            }
            _ if !address.is_multiple_of(MIN_ALIGN) => Fault::InteriorPointer,
            State::Freed => Fault::DoubleFree,
            _ if class == SizeClass::NONE => Fault::FreeMemory,
            _ => Fault::InteriorPointer,
        };
        let block = self.around(address, class);
        let fault = match block {
            None if fault == Fault::InteriorPointer => Fault::FreeMemory,
            _ => fault,
        };
        Misuse { block, ..Misuse::at(fault, address) }
    }

    /// The live block around an address.
    fn around(&self, address: usize, class: SizeClass) -> Option<(usize, usize)> {
        if !class.is_small() {
            let live = self.live_in_run(address)??;
            return Some((live.user, live.frame.bytes));
        }
        let (start, bytes) = self.heap.block_of(address)?;
        let fronts = core::iter::once(FRONT).chain((5..=12).map(|shift| 1 << shift));
        let users = fronts.map(|front| start + front).filter(|user| *user < start + bytes);
        let mut live = users.filter(|user| State::of(self.heap.pages.mark_of(*user)) == State::Live);
        let user = live.next()?;
        // SAFETY: a live block has a frame.
        unsafe { frame::read(self.secret(), user) }.ok().map(|frame| (user, frame.bytes))
    }

    /// Clears a small block and puts it into quarantine; what leaves for it goes back to the heap.
    fn retire(&self, live: &Live) -> Result<(), Misuse> {
        let front = live.frame.front();
        let start = live.user - front;
        let tail = self.room(live).min(frame::TAIL_MOST);
        // SAFETY: the block is the heap's again; nothing else of it was ever written.
        unsafe { at_mut::<u8>(live.user - FRONT).write_bytes(0, FRONT + live.frame.bytes + tail) };
        let turn = self.heap.cache.front.current().unwrap_or_else(|| O::thread_id() >> 12);
        let leaving = self.quarantine.exchange(&self.heap.os, turn, live.class, start);
        if leaving != 0 {
            // Every block is looked at again when it is handed out. One that without a budget would have had guards is
            // looked at only then.
            if live.class.block_bytes() <= MOST_SMALL {
                self.is_untouched(leaving, live.class)?;
            }
            self.heap.free(leaving);
        }
        Ok(())
    }

    fn empty_quarantine(&self) {
        self.quarantine.empty(|block| self.heap.free(block));
        self.empty_runs();
    }

    fn change_maker(&self, address: usize, from: Maker, to: Maker) {
        if self.is_outside(address) {
            return;
        }
        if self.heap.empties.owns(address) {
            let empty = self.heap.obeyed(self.heap.empties.inspect(address));
            self.heap.obeyed(self.check_empty_maker(empty, from));
            return self.heap.empties.set_maker(empty, to);
        }
        let live = self.heap.obeyed(self.inspect(address));
        self.heap.obeyed(self.check_maker(&live, from));
        self.reframe(&live, Frame { maker: to, ..live.frame });
    }

    /// Writes another frame around a live block.
    fn reframe(&self, live: &Live, frame: Frame) {
        let room = self.room(&Live { frame, ..*live });
        // SAFETY: the block is its owner's, who called us, and is so long.
        unsafe { frame::write(self.secret(), live.user, frame, room) };
    }
}

#[cfg(test)]
mod tests;
