//! Operations on blocks: the one way to them for `exports`.
//!
//! A policy, which is `Heap` itself or `Hardened` over it, says what each of these does. None has a meaning that a
//! policy could forget: a policy without one does not compile. Matters other than blocks (options, figures, fork, the
//! janitor) are asked of the heap below, by its name.

use super::{Ending, Heap, HeapId, Refusal};
use crate::base::fault::{Access, Maker, Misuse};
use crate::base::stack::Stack;
use crate::class::MIN_ALIGN;
use crate::observe::layout::Kind;
use crate::os::Os;

pub trait Blocks {
    type Os: Os;

    /// The heap below the policy. Its own ways to blocks know nothing of one.
    fn heap(&self) -> &Heap<Self::Os>;

    /// Whether accesses to guard pages end the process with a line, if somebody asks `explain`.
    fn has_guard_pages(&self) -> bool;

    /// A block of at least `bytes`, aligned to 16; 0 where there is no memory or `bytes` is too much.
    #[inline(always)]
    fn allocate(&self, bytes: usize) -> usize {
        match self.allocate_fast(bytes) {
            0 => self.allocate_slow(bytes),
            block => block,
        }
    }

    /// A block for `allocate` if the cache has one; 0 otherwise.
    fn allocate_fast(&self, bytes: usize) -> usize;
    fn allocate_slow(&self, bytes: usize) -> usize;
    /// Does the work of `allocate_fast` and `mark` for one of the operators new.
    fn make_fast(&self, bytes: usize, maker: Maker) -> usize;

    /// A block of at least `bytes` at a multiple of `align`, a power of two.
    fn allocate_aligned(&self, align: usize, bytes: usize) -> usize;
    /// A block for `allocate_aligned` if the cache has one; 0 otherwise.
    fn allocate_aligned_fast(&self, align: usize, bytes: usize) -> usize;

    /// A zeroed block for `count` objects of `bytes` each; 0 also where the product is too much.
    fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize;
    /// A block for `allocate_zeroed` if the cache has one; 0 otherwise.
    fn allocate_zeroed_fast(&self, count: usize, bytes: usize) -> usize;
    /// A zeroed block of at least `bytes` at a multiple of `align`, a power of two.
    fn allocate_aligned_zeroed(&self, align: usize, bytes: usize) -> usize;

    /// A block of at least `bytes` with the contents of the one at `address`, which is then free; 0 where there is no
    /// memory, and the old block is as it was. `address` 0 means a new block.
    fn reallocate(&self, address: usize, bytes: usize) -> usize;
    /// Does the work of `reallocate` for a block that has to lie at a multiple of `align`, a power of two, whatever the
    /// old one was aligned to.
    fn reallocate_aligned(&self, address: usize, align: usize, bytes: usize) -> usize;
    /// Gives the block at `address` another size where that can be without moving it, and where it lies at a multiple of
    /// `align`; false where it stays as it is.
    fn resize_in_place(&self, address: usize, align: usize, bytes: usize) -> bool;

    /// Takes a block back. 0 is no block and does nothing.
    #[inline(always)]
    fn free(&self, address: usize) {
        if !self.free_fast(address) {
            self.free_slow(address);
        }
    }

    /// Does the work of `free` if the cache has a place; false otherwise.
    fn free_fast(&self, address: usize) -> bool;
    /// Does the work of `free_fast` for a block that the caller says was asked for with `bytes`; false also if that
    /// cannot be seen at once.
    fn free_sized_fast(&self, address: usize, bytes: usize) -> bool;
    fn free_slow(&self, address: usize);
    /// Does the work of `hand_over` and `free_fast` together, if both can be done at once.
    fn take_fast(&self, address: usize, maker: Maker) -> bool;
    /// Does the work of `hand_over` and `free_sized_fast` together, if both can be done at once. No alignment was
    /// named.
    fn take_sized_fast(&self, address: usize, bytes: usize, maker: Maker) -> bool;

    /// Notes that a block was made by one of the operators new.
    fn mark(&self, address: usize, maker: Maker);
    /// Lets `free` take a block that a delete of this family was called for.
    fn hand_over(&self, address: usize, maker: Maker);

    /// Stops the process unless the block at `address` can have been asked for with this size and alignment, or nobody is
    /// to look. An alignment of 0 is the one that every block has, and nobody says which.
    fn check_size(&self, address: usize, bytes: usize, align: usize);
    /// The same for a caller whose sizes say nothing.
    fn check_alignment(&self, address: usize, align: usize);
    /// Bytes that may be used at the start of the block at `address`, 0 for 0.
    fn usable_bytes(&self, address: usize) -> usize;
    /// Bytes that a block for `bytes` would have.
    fn block_bytes_for(&self, bytes: usize, align: usize) -> usize;
    /// Stops the process where a copy of `bytes` to `address` would leave the block that it begins in, as far as that is
    /// looked at.
    fn check_copy(&self, address: usize, bytes: usize);
    /// A block of a tenant's heap, as `allocate_aligned` has them; the process's own heap gives what that does. The program asked
    /// for one of this very heap.
    fn allocate_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal>;
    /// The same, all of whose bytes read as zeros.
    fn allocate_zeroed_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal>;
    /// The heap for blocks that a compiler gave this token.
    fn heap_for_token(&self, token: u64) -> HeapId;
    /// Ends a tenant's heap; frees all of its blocks; calls `take` with address and bytes of each that is in use.
    fn end_heap(&self, id: HeapId, how: Ending) -> Result<(), Refusal>;
    fn reset_heap(&self, id: HeapId) -> Result<(), Refusal>;
    fn each_block_of(&self, id: HeapId, take: impl FnMut(usize, usize));
    /// Whether the address lies in a block of this heap.
    fn owns(&self, address: usize) -> bool;
    /// The meaning of an access that the system refused, if it was to memory of ours.
    fn explain(&self, address: usize, access: Access) -> Option<Misuse>;
    /// Says more of what was explained, on the program's standard error; `here` finds the stack.
    fn tell_more(&self, misuse: &Misuse, here: &dyn Fn() -> Stack);

    /// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes given.
    fn release(&self, keep: usize) -> usize;
    /// Looks whether a free block was misused, as far as that can be seen.
    fn audit(&self);
    /// Looks a last time, at the end of a process: nothing is cached any more.
    fn audit_for_good(&self);
}

/// Methods that the type has itself, by the same names.
macro_rules! own {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)+) => { $(
        #[inline(always)]
        fn $name(&self, $($argument: $kind),*) $(-> $result)? {
            Self::$name(self, $($argument),*)
        }
    )+ };
}

// A method that the heap does not have itself would call itself for ever.
#[deny(unconditional_recursion)]
impl<O: Os> Blocks for Heap<O> {
    type Os = O;

    fn heap(&self) -> &Heap<O> {
        self
    }

    own! {
        allocate_zeroed_fast(count: usize, bytes: usize) -> usize;
        free_fast(address: usize) -> bool;
        free_sized_fast(address: usize, bytes: usize) -> bool;
        check_size(address: usize, bytes: usize, align: usize);
        usable_bytes(address: usize) -> usize;
        owns(address: usize) -> bool;
        end_heap(id: HeapId, how: Ending) -> Result<(), Refusal>;
        reset_heap(id: HeapId) -> Result<(), Refusal>;
        release(keep: usize) -> usize;
        audit();
        audit_for_good();
    }

    #[inline(always)]
    fn allocate_fast(&self, bytes: usize) -> usize {
        match Self::allocate_fast(self, bytes) {
            0 if self.cache.front.is_scoped() => self.pop_scoped(MIN_ALIGN, bytes),
            block => block,
        }
    }

    #[inline(always)]
    fn allocate_aligned_fast(&self, align: usize, bytes: usize) -> usize {
        match Self::allocate_aligned_fast(self, align, bytes) {
            0 if self.cache.front.is_scoped() => self.pop_scoped(align, bytes),
            block => block,
        }
    }

    // The recording is of what the program asked for, not of what the heap does for that by itself: so here. The fast
    // ways give nothing while it is.

    #[inline(always)]
    fn allocate_slow(&self, bytes: usize) -> usize {
        let block = match self.scoped(|heap, id| heap.allocate_in(id, MIN_ALIGN, bytes)) {
            Some(block) => block,
            None => Self::allocate_slow(self, bytes),
        };
        self.begun(Kind::Malloc, block, bytes, 0)
    }

    #[inline(always)]
    fn allocate_aligned(&self, align: usize, bytes: usize) -> usize {
        let kind = if align > MIN_ALIGN { Kind::Aligned } else { Kind::Malloc };
        let block = match self.scoped(|heap, id| heap.allocate_in(id, align.max(MIN_ALIGN), bytes)) {
            Some(block) => block,
            None => Self::allocate_aligned(self, align, bytes),
        };
        self.begun(kind, block, bytes, align)
    }

    #[inline(always)]
    fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize {
        let block = match count.checked_mul(bytes) {
            Some(total) => self.scoped(|heap, id| heap.allocate_zeroed_in(id, MIN_ALIGN, total)),
            None => None,
        };
        let block = block.unwrap_or_else(|| Self::allocate_zeroed(self, count, bytes));
        self.begun(Kind::Calloc, block, count.wrapping_mul(bytes), 0)
    }

    #[inline(always)]
    fn allocate_aligned_zeroed(&self, align: usize, bytes: usize) -> usize {
        let kind = if align > MIN_ALIGN { Kind::Aligned } else { Kind::Calloc };
        let block = self.scoped(|heap, id| heap.allocate_zeroed_in(id, align.max(MIN_ALIGN), bytes));
        let block = block.unwrap_or_else(|| Self::allocate_aligned_zeroed(self, align, bytes));
        self.begun(kind, block, bytes, align)
    }

    #[inline(always)]
    fn reallocate(&self, address: usize, bytes: usize) -> usize {
        self.resized(address, 0, bytes, || match address {
            0 => self.begin_by_resize(MIN_ALIGN, bytes),
            _ => Self::reallocate(self, address, bytes),
        })
    }

    #[inline(always)]
    fn reallocate_aligned(&self, address: usize, align: usize, bytes: usize) -> usize {
        self.resized(address, align, bytes, || match address {
            0 => self.begin_by_resize(align.max(MIN_ALIGN), bytes),
            _ => Self::reallocate_aligned(self, address, align, bytes),
        })
    }

    #[inline(always)]
    fn resize_in_place(&self, address: usize, align: usize, bytes: usize) -> bool {
        let is_done = Self::resize_in_place(self, address, align, bytes);
        if is_done && self.recording.is_on() {
            self.record_in_place(address, bytes);
        }
        is_done
    }

    #[inline(always)]
    fn free_slow(&self, address: usize) {
        self.ends(address);
        if !self.free_to_tenant(address) {
            Self::free_slow(self, address);
        }
    }

    fn block_bytes_for(&self, bytes: usize, align: usize) -> usize {
        Self::block_bytes_for(bytes, align)
    }

    fn has_guard_pages(&self) -> bool {
        false
    }

    /// Only the hardened policy looks which function made a block.
    #[inline(always)]
    fn mark(&self, _: usize, _: Maker) {}

    #[inline(always)]
    fn hand_over(&self, _: usize, _: Maker) {}

    #[inline(always)]
    fn make_fast(&self, bytes: usize, _: Maker) -> usize {
        self.allocate_fast(bytes)
    }

    #[inline(always)]
    fn take_fast(&self, address: usize, _: Maker) -> bool {
        self.free_fast(address)
    }

    #[inline(always)]
    fn take_sized_fast(&self, address: usize, bytes: usize, _: Maker) -> bool {
        self.free_sized_fast(address, bytes)
    }

    #[inline(always)]
    fn check_alignment(&self, _: usize, _: usize) {}

    #[inline(always)]
    fn check_copy(&self, _: usize, _: usize) {}

    #[inline(always)]
    fn allocate_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.take_block_of(id, align, bytes)
    }

    #[inline(always)]
    fn allocate_zeroed_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.take_zeroed_block_of(id, align, bytes)
    }

    /// Partitions are the hardened policy's.
    fn heap_for_token(&self, _: u64) -> HeapId {
        self.scope()
    }

    fn each_block_of(&self, id: HeapId, take: impl FnMut(usize, usize)) {
        Self::each_block_of(self, id, take);
    }

    fn tell_more(&self, _: &Misuse, _: &dyn Fn() -> Stack) {}

    fn explain(&self, address: usize, access: Access) -> Option<Misuse> {
        self.sources.empties.owns(address).then(|| self.sources.empties.meaning_of(address, access))
    }
}
