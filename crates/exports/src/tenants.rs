//! Heaps of tenants for Rust programs.
//!
//! A [`Heap`] gives blocks that are counted and bounded as its own, and are freed with it; in a [`Scope`] everything that this
//! thread allocates is the heap's.

use super::c::undisturbed;
use super::{blocks, heap};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;
use vcmalloc_core::class::MIN_ALIGN;
use vcmalloc_core::heap::{Blocks, Ending, HeapId, Made, Refusal, TenantStats};

/// Why a heap was not made, or gave no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapRefused {
    /// There is no memory.
    Memory,
    /// The limit of the heap, or of one above it, is reached.
    Limit,
    /// The heap has heaps below it, or has ended.
    State,
}

impl From<Refusal> for HeapRefused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Memory => HeapRefused::Memory,
            Refusal::Limit(_) => HeapRefused::Limit,
            Refusal::Gone | Refusal::HasChildren => HeapRefused::State,
        }
    }
}

/// A heap of its own. When it is dropped its blocks are freed, whoever has them: to drop it is as safe as its blocks are
/// unreachable, so [`Heap::new`] is unsafe.
#[derive(Debug)]
pub struct Heap {
    id: HeapId,
}

impl Heap {
    /// Makes a heap; `name` is for reports, `limit` bounds the bytes of its spans.
    ///
    /// # Safety
    ///
    /// When the heap is dropped nobody uses a block of it any more, nor after [`Heap::reset`].
    pub unsafe fn new(name: &str, limit: Option<usize>) -> Result<Heap, HeapRefused> {
        Heap::below(name, limit, HeapId::OWN)
    }

    /// Makes a heap whose bytes count against the limit of this one, too.
    ///
    /// # Safety
    ///
    /// As [`Heap::new`]. The other heap is dropped later than this one; if not, it stays.
    pub unsafe fn child(&self, name: &str, limit: Option<usize>) -> Result<Heap, HeapRefused> {
        Heap::below(name, limit, self.id)
    }

    fn below(name: &str, limit: Option<usize>, parent: HeapId) -> Result<Heap, HeapRefused> {
        let made = Made { name: name.as_bytes(), parent, limit, on_limit: None, argument: 0 };
        let id = undisturbed(|| heap().make_heap(made))?;
        Ok(Heap { id })
    }

    /// A block of the heap. [`Heap::deallocate`] frees it, and so does the global allocator, if that is [`Vcmalloc`](crate::Vcmalloc).
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, HeapRefused> {
        let align = layout.align().max(MIN_ALIGN);
        self.answered(undisturbed(|| blocks().allocate_in(self.id, align, layout.size())))
    }

    /// The same, all of whose bytes are zero.
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, HeapRefused> {
        let align = layout.align().max(MIN_ALIGN);
        self.answered(undisturbed(|| blocks().allocate_zeroed_in(self.id, align, layout.size())))
    }

    fn answered(&self, block: Result<usize, Refusal>) -> Result<NonNull<u8>, HeapRefused> {
        NonNull::new(core::ptr::with_exposed_provenance_mut(block?)).ok_or(HeapRefused::Memory)
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The block is one of this allocator's, of any heap, and nobody uses it any more.
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        undisturbed(|| blocks().free(block.as_ptr().expose_provenance()));
    }

    /// Has this thread's allocations be the heap's as long as the value lives. Scopes end in the order in which they began.
    #[must_use = "the scope ends when the value is dropped"]
    pub fn enter(&self) -> Scope<'_> {
        Scope { before: heap().push_heap(self.id), heap: PhantomData }
    }

    /// Frees all blocks, and stays.
    ///
    /// # Safety
    ///
    /// Nobody uses a block of it any more, and no other thread uses the heap meanwhile.
    pub unsafe fn reset(&self) {
        let _ = undisturbed(|| blocks().reset_heap(self.id));
    }

    /// Sets the limit; what the heap has stays.
    pub fn set_limit(&self, limit: Option<usize>) {
        let _ = heap().set_heap_limit(self.id, limit);
    }

    /// Its figures, in bytes.
    pub fn stats(&self) -> TenantStats {
        undisturbed(|| heap().heap_stats(self.id)).unwrap_or_default()
    }

    /// Whether a block belongs to this heap.
    pub fn owns(&self, block: *const u8) -> bool {
        heap().owner_heap(block.expose_provenance()) == Some(self.id)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let _ = undisturbed(|| blocks().end_heap(self.id, Ending::FreeAll));
    }
}

/// A thread's use of a heap.
#[derive(Debug)]
pub struct Scope<'a> {
    before: Option<HeapId>,
    /// It ends in the thread that it began in, and before the heap.
    heap: PhantomData<(&'a Heap, *const ())>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && heap().push_heap(before).is_none()
        {
            heap().push_heap(HeapId::OWN);
        }
    }
}
