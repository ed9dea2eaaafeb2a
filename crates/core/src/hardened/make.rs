//! Making a block: memory of a class or a run, its mark, its frame.

use super::frame::{self, FRONT, Frame, TAIL_LEAST};
use super::states::handed_out_twice;
use super::visits::Visit;
use super::zeros;
use super::{GUARDED_FROM, Hardened, Live, MOST_SMALL, MOST_SMALL_ALIGN, Of};
use crate::base::PAGE_BYTES;
use crate::base::fault::{Fault, Misuse};
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};
use crate::heap::HeapId;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Hardened<O> {
    pub(super) fn make(&self, of: Of<'_>, align: usize, bytes: usize) -> Result<usize, Misuse> {
        let is_small = bytes < GUARDED_FROM && align <= MOST_SMALL_ALIGN;
        if !is_small {
            let fenced = self.may_fence();
            if fenced || align > MOST_SMALL_ALIGN || bytes > LARGEST_BYTES - MOST_SMALL_ALIGN - TAIL_LEAST {
                return self.make_guarded(of, align, bytes, false, fenced);
            }
        }
        let frame = placed(Frame::asked_for(align, bytes));
        let around = if frame.behind { FRONT } else { frame.front() };
        let start = self.small_memory(of, align.max(MIN_ALIGN), around + bytes + TAIL_LEAST);
        // The block is not live yet: a heap that would become a zombie waits, or goes on draining.
        let _visit = if of.id == HeapId::OWN { Visit::Own } else { self.visit(start) };
        let class = self.heap.pages.class_of_block(start);
        if start == 0 || !class.is_small() {
            // Emergency memory has no frame.
            return Ok(start);
        }
        self.lay_out(start, class, frame)
    }

    /// Makes a block of free memory of a class.
    #[inline(always)]
    pub(super) fn lay_out(&self, start: usize, class: SizeClass, frame: Frame) -> Result<usize, Misuse> {
        if class.block_bytes() >= PAGE_BYTES && self.is_brought_in(class) {
            // SAFETY: free memory of the class, which is ours.
            unsafe { zeros::bring_in(start, class.block_bytes()) };
        }
        self.is_untouched(start, class)?;
        let (front, bytes) = (frame.front(), frame.bytes);
        let user = start + front;
        let live = Live { user, class, frame };
        let Some(mark) = self.mark_of(user) else {
            self.heap.free(start);
            return Ok(0);
        };
        let room = if frame.behind { self.room(&live) } else { class.block_bytes() - front - bytes };
        // SAFETY: the block is ours and so long.
        unsafe { frame::write(self.secret(), user, frame, room) };
        // Last: a child, and the end of a heap, find the frame of each live block.
        if mark.hand_out(live.state()) { Ok(user) } else { Err(handed_out_twice(user)) }
    }

    /// Whether pages of a block that are not in memory are brought in before it is looked at. If memory is plenty, a
    /// large block of which little will be written takes little, until it is freed.
    fn is_brought_in(&self, class: SizeClass) -> bool {
        class.block_bytes() <= MOST_SMALL || self.was_short()
    }

    /// Whether the next block may have guards: each costs system calls, so only so many a second do.
    pub(super) fn may_fence(&self) -> bool {
        self.budget.takes_one(self.heap.options.get(OptionId::guard_budget), || self.heap.os.now())
    }

    /// Free blocks are zero from their first byte to their last.
    #[inline(always)]
    pub(super) fn is_untouched(&self, start: usize, class: SizeClass) -> Result<(), Misuse> {
        // SAFETY: a free block that the caller has taken out of everybody's reach; none is shorter than a frame.
        match unsafe { zeros::is_zero(start, class.block_bytes()) } {
            true => Ok(()),
            false => Err(self.changed_after_free(start, class)),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn changed_after_free(&self, start: usize, class: SizeClass) -> Misuse {
        let bytes = class.block_bytes();
        // SAFETY: as in `is_untouched`. A writer may have put the byte back meanwhile.
        let changed = unsafe { zeros::first_nonzero(start, bytes) }.unwrap_or(start);
        Misuse { block: Some((start, bytes)), ..Misuse::at(Fault::WriteAfterFree, changed) }
    }

    /// A block of a class at a multiple of `align`; 0 for what is larger. Never a sample: those are no small blocks.
    pub(super) fn small_memory(&self, of: Of<'_>, align: usize, bytes: usize) -> usize {
        let Some(class) = SizeClass::for_aligned(bytes, align) else { return 0 };
        if of.id != HeapId::OWN {
            return match self.heap.memory_in(of.id, Some(class), bytes, align, of.after_limit) {
                Some(taken) => taken.map_or(0, |fresh| fresh.address),
                None => self.heap.allocate_in_emergency(bytes, align),
            };
        }
        let block = self.heap.cache.front.pop(class);
        if block != 0 {
            return block;
        }
        self.heap
            .in_slow_path(|inside| self.heap.allocate_class(inside, class, bytes))
            .unwrap_or_else(|| self.heap.allocate_in_emergency(bytes, align))
    }
}

/// The frame of a small block, behind it where that takes less memory: an alignment moves a block that has it in front by as
/// much.
fn placed(frame: Frame) -> Frame {
    let (align, bytes) = (1 << frame.laid, frame.bytes + TAIL_LEAST);
    let memory = |around: usize| SizeClass::for_aligned(around + bytes, align).map(SizeClass::block_bytes);
    let behind = align > MIN_ALIGN && memory(FRONT) < memory(frame.front()).or(Some(usize::MAX));
    Frame { behind, ..frame }
}
