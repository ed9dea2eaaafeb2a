//! Heaps of tenants, as programs ask for them: each call in the frame of slow paths.

use super::sizes::stays_in;
use crate::base::Fresh;
use crate::base::sync::Ordering;
use crate::base::ticks::Ticks;
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};
use crate::heap::Heap;
use crate::observe::layout::Kind;
use crate::os::Os;
use crate::policy::Leaving;
use crate::tenants::{Ending, HeapId, Made, NAME_BYTES, Refusal, TenantStats};
use crate::upkeep;

/// While a heap hands its blocks over, a realloc looks so often whose its block is, in nanoseconds.
const WAIT: u64 = 20_000;

impl<O: Os> Heap<O> {
    /// Makes a heap. In a signal handler that interrupted the heap there is none, as without memory.
    pub fn make_heap(&self, made: Made<'_>) -> Result<HeapId, Refusal> {
        let make = |_: crate::engine::Inside<'_>| match self.is_started() {
            true => self.tenants.make(&self.os, &self.cache, made),
            false => Err(Refusal::Memory),
        };
        self.in_slow_path(make).unwrap_or(Err(Refusal::Memory))
    }

    /// Ends a heap.
    pub fn end_heap(&self, id: HeapId, how: Ending) -> Result<(), Refusal> {
        let tell = || self.note_end_of_heap(id, how);
        let is_prompt = self.tenants.is_prompt(id);
        let ended = self.in_slow_path(|_| self.tenants.end(&self.store, id, how, tell));
        let freed = self.obeyed(ended.unwrap_or(Ok(Err(Refusal::Memory))))?;
        self.settle_end(freed, is_prompt);
        Ok(())
    }

    /// Gives the memory back of a heap that ended with so many bytes of spans, as `end_heap` does.
    pub(crate) fn settle_end(&self, bytes: usize, is_prompt: bool) {
        self.inside(|_| self.upkeep.settle_ended(&self.floors, bytes, is_prompt));
    }

    /// Ends a heap of which a policy took all blocks back.
    pub(crate) fn end_taken_back(&self, id: HeapId) {
        let is_prompt = self.tenants.is_prompt(id);
        let ended = self.in_slow_path(|_| self.tenants.end(&self.store, id, Ending::FreeAll, || ()));
        let freed = self.obeyed(ended.unwrap_or(Ok(Err(Refusal::Memory))));
        self.settle_end(freed.unwrap_or(0), is_prompt);
    }

    /// Frees all blocks of a heap.
    pub fn reset_heap(&self, id: HeapId) -> Result<(), Refusal> {
        let tell = || self.note_end_of_heap(id, Ending::FreeAll);
        let reset = self.in_slow_path(|_| self.tenants.reset(&self.store, id, tell));
        self.obeyed(reset.unwrap_or(Ok(Err(Refusal::Memory))))
    }

    /// A block of a heap, of at least `bytes` at a multiple of `align`, a power of two; the process's own gives what
    /// `allocate` gives.
    pub fn allocate_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.take_in(id, align, bytes).map(|fresh| fresh.address)
    }

    /// The same, all of whose bytes read as zeros.
    pub fn allocate_zeroed_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        if id == HeapId::OWN {
            return some(self.allocate_aligned_zeroed(align, bytes));
        }
        let fresh = self.take_in(id, align, bytes)?;
        self.large.clear(&self.os, &self.pages, fresh, bytes);
        Ok(fresh.address)
    }

    /// As `allocate_in`, for a program that asks for a block of this very heap: a recording has it.
    pub fn take_block_of(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        let kind = if align > MIN_ALIGN { Kind::Aligned } else { Kind::Malloc };
        self.allocate_in(id, align, bytes).map(|block| self.begun(kind, block, bytes, align))
    }

    /// The same, all of whose bytes read as zeros.
    pub fn take_zeroed_block_of(&self, id: HeapId, align: usize, bytes: usize) -> Result<usize, Refusal> {
        self.allocate_zeroed_in(id, align, bytes).map(|block| self.begun(Kind::Calloc, block, bytes, align))
    }

    fn take_in(&self, id: HeapId, align: usize, bytes: usize) -> Result<Fresh, Refusal> {
        if id == HeapId::OWN {
            let block =
                if align <= MIN_ALIGN { self.allocate(bytes) } else { self.allocate_aligned(align, bytes) };
            return some(block).map(|address| Fresh { address, zeroed: false });
        }
        if let Some(sample) = self.sample_of_tenant(id, align, bytes) {
            return Ok(sample);
        }
        let class = match align {
            ..=MIN_ALIGN if bytes <= LARGEST_BYTES => Some(SizeClass::for_small(bytes.max(1))),
            _ => SizeClass::for_aligned(bytes.max(1), align),
        };
        self.memory_in(id, class, bytes, align, Some(&|| ())).unwrap_or_else(|| {
            // Emergency memory is zero, and nobody's but the process's.
            some(self.allocate_in_emergency(bytes.max(1), align))
                .map(|address| Fresh { address, zeroed: true })
        })
    }

    /// Memory of a tenant's heap, of a class, or without one a run of units; none inside. A refusal counts where this
    /// is the last try, and the heap's maker is told before. `after_limit` is called then, for what the maker freed: without it this
    /// is not the last try.
    pub(crate) fn memory_in(
        &self,
        id: HeapId,
        class: Option<SizeClass>,
        bytes: usize,
        align: usize,
        after_limit: Option<&dyn Fn()>,
    ) -> Option<Result<Fresh, Refusal>> {
        if let Some(class) = class {
            let block = self.pop_of(id, class);
            if block != 0 {
                return Some(Ok(Fresh { address: block, zeroed: false }));
            }
        }
        let attempt =
            || self.in_slow_path(|inside| self.engine.take_of_tenant(inside, id, class, bytes, align));
        let mut taken = attempt()?;
        // Its maker may make room.
        if let Err(Refusal::Limit(of)) = taken
            && let Some(after_limit) = after_limit
            && self.tenants.tell_of_limit(of, bytes)
        {
            after_limit();
            taken = attempt()?;
        }
        if let Err(Refusal::Limit(of)) = taken
            && after_limit.is_some()
        {
            self.tenants.note_refused(of);
        }
        Some(taken.map(|fresh| match class {
            Some(class) => Fresh { address: self.keys.leave(class, Leaving::new(fresh.address)), ..fresh },
            None => fresh,
        }))
    }

    /// Has this thread served by a heap from now on, and returns the heap that served it before; none where there is no such
    /// heap, and all is as it was.
    pub fn push_heap(&self, id: HeapId) -> Option<HeapId> {
        if !self.is_heap(id) {
            return None;
        }
        let word = if id == HeapId::OWN { 0 } else { id.0 as usize };
        // First: the word says whether this is looked at. A handler that comes between the two finds the slabs of one heap and the
        // name of the other, which do not fit, and takes the slow path.
        if word != 0 {
            O::tenant_in_use().store(self.tenants.entry_of(id), Ordering::Relaxed);
        }
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        let before = O::heap_in_use().swap(word, Ordering::Relaxed);
        if word != 0 {
            // After the word: from here on requests of this thread come to where it is read.
            self.cache.scope();
        }
        Some(if before == 0 { HeapId::OWN } else { HeapId(before as u64) })
    }

    /// The block of the heap that serves this thread, where it has one; none where the process's own is to.
    #[inline]
    pub(super) fn scoped(
        &self,
        attempt: impl FnOnce(&Self, HeapId) -> Result<usize, Refusal>,
    ) -> Option<usize> {
        if !self.tenants.has_any() {
            return None;
        }
        self.scoped_here(attempt)
    }

    #[cold]
    fn scoped_here(&self, attempt: impl FnOnce(&Self, HeapId) -> Result<usize, Refusal>) -> Option<usize> {
        let word = O::heap_in_use().load(Ordering::Relaxed);
        // A handler that interrupted this thread inside is served without locks.
        if word == 0 || self.is_inside() {
            return None;
        }
        match attempt(self, HeapId(word as u64)) {
            Ok(block) => Some(block),
            // It ended although this thread used it: the process's own serves.
            Err(Refusal::Gone) => None,
            Err(_) => Some(0),
        }
    }

    /// A block of the cache of this thread's heap; 0 where there is none.
    #[inline(never)]
    pub(super) fn pop_scoped(&self, align: usize, bytes: usize) -> usize {
        let word = O::heap_in_use().load(Ordering::Relaxed);
        let class = match align {
            ..=MIN_ALIGN if bytes <= LARGEST_BYTES => SizeClass::for_small(bytes.max(1)),
            _ => match SizeClass::for_aligned(bytes.max(1), align) {
                Some(class) => class,
                None => return 0,
            },
        };
        if word == 0 { 0 } else { self.pop_of(HeapId(word as u64), class) }
    }

    #[inline]
    fn pop_of(&self, id: HeapId, class: SizeClass) -> usize {
        self.keys.leave(class, Leaving::new(self.tenants.pop(id, class)))
    }

    /// Puts a block of a tenant's heap into that heap's cache; false where it is none, or there is no place. A profile knows no
    /// block of a tenant's heap.
    #[inline]
    pub(super) fn free_to_tenant(&self, address: usize) -> bool {
        self.tenants.has_any() && self.push_to_tenant(address, 0) != 0
    }

    /// The same for an owner who counts bytes: those of the block, which was asked for with so many at least; 0 also while frees
    /// are recorded.
    #[inline]
    pub fn free_to_tenant_bytes(&self, address: usize, bytes: usize) -> usize {
        let is_fast = self.tenants.has_any() && !self.recording.is_on();
        if is_fast { self.push_to_tenant(address, bytes) } else { 0 }
    }

    /// A block of the cache of a heap; 0 where there is none, or requests are looked at.
    #[inline]
    pub fn pop_block_of(&self, id: HeapId, bytes: usize) -> usize {
        let is_unseen = self.cache.front.is_direct() || self.cache.front.is_scoped();
        if id == HeapId::OWN || bytes > LARGEST_BYTES || !is_unseen {
            return 0;
        }
        self.pop_of(id, SizeClass::for_small(bytes.max(1)))
    }

    #[inline(never)]
    fn push_to_tenant(&self, address: usize, least: usize) -> usize {
        // Large blocks are in no cache, and a block of a class that shows as large is a tenant's.
        if self.pages.class_of_allocated(address) != Some(SizeClass::LARGE) {
            return 0;
        }
        let Some(id) = self.pages.span_of_unit(address) else { return 0 };
        let span = self.pages.span(id);
        let (class, number) = (span.class(), span.heap.get());
        let owner = self.tenants.id_of(number);
        // After the name: while the span is the heap's, the name is that heap's.
        core::sync::atomic::fence(Ordering::Acquire);
        let is_taken = class.is_small()
            && class.block_bytes() >= least
            && span.heap.get() == number
            && self.keys.arrive(class, address, || self.tenants.push(owner, class, address));
        if is_taken { class.block_bytes() } else { 0 }
    }

    /// A block for a thread that resizes none.
    pub(super) fn begin_by_resize(&self, align: usize, bytes: usize) -> usize {
        let block = self.scoped(|heap, id| heap.allocate_in(id, align, bytes));
        block.unwrap_or_else(|| self.reallocate_aligned(0, align, bytes))
    }

    /// A block of a tenant's heap with another size: it stays in its heap, whatever heap the thread uses. None where it is the
    /// process's own by now.
    pub(crate) fn reallocate_of_tenant(&self, address: usize, align: usize, bytes: usize) -> Option<usize> {
        let is_aligned = self.is_aligned(address, align);
        loop {
            let id = self.owner_heap(address)?;
            let usable = self.usable_bytes(address);
            if is_aligned && (stays_in(usable, bytes) || self.resizes_of_tenant(address, bytes)) {
                self.note_resized_of_tenant(id, address, bytes);
                return Some(address);
            }
            let Ok(block) = self.allocate_in(id, align, bytes) else {
                if self.is_handed_over(id, address) {
                    continue;
                }
                // A block that shrinks can stay.
                return Some(if bytes <= usable && is_aligned { address } else { 0 });
            };
            // SAFETY: both blocks are at least so long, and do not overlap.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    core::ptr::with_exposed_provenance::<u8>(address),
                    core::ptr::with_exposed_provenance_mut::<u8>(block),
                    usable.min(bytes),
                );
            }
            self.free(address);
            return Some(block);
        }
    }

    /// Whether a block whose heap gave nothing is handed over to another one, which may give more: at once, or after a moment in
    /// which this waits.
    pub fn is_handed_over(&self, id: HeapId, block: usize) -> bool {
        // First: the end of a heap that is not seen here is seen in the block.
        if self.tenants.is_ending(id) {
            // A handler may have interrupted the thread that is waited for, or one that this waits for.
            let waits = !self.is_inside();
            if waits {
                self.os.sleep(WAIT);
            }
            return waits;
        }
        self.owner_heap(block) != Some(id)
    }

    /// Gives such a block another size where it lies; false where that cannot be.
    pub(crate) fn resizes_of_tenant(&self, address: usize, bytes: usize) -> bool {
        if bytes == 0 || bytes > crate::heap::LARGEST_REQUEST {
            return false;
        }
        if self.pages.class_of_allocated(address).is_some() {
            return stays_in(self.usable_bytes(address), bytes);
        }
        self.in_slow_path(|_| self.tenants.resize_in_place(&self.store, address, bytes)).unwrap_or(false)
    }

    pub fn set_heap_limit(&self, id: HeapId, limit: Option<usize>) -> Result<(), Refusal> {
        let set = |is_inside| self.tenants.set_limit(id, limit, is_inside);
        self.inside(|_| set(true)).unwrap_or_else(|| set(false))
    }

    /// Has idle pages of a heap's spans wait so many nanoseconds before they go; none: as long as the process's own, whose ticks
    /// they wait for in any case.
    pub fn set_heap_delay(&self, id: HeapId, nanoseconds: Option<u64>) -> Result<(), Refusal> {
        let tick = upkeep::nanoseconds(&self.options);
        let ticks = |time: u64| Ticks(time.checked_div(tick).unwrap_or(0).clamp(1, u32::MAX.into()) as u32);
        let set = |is_inside| self.tenants.set_delay(id, nanoseconds.map(ticks), is_inside);
        self.inside(|_| set(true)).unwrap_or_else(|| set(false))
    }

    pub fn heap_stats(&self, id: HeapId) -> Option<TenantStats> {
        self.inside(|_| self.tenants.stats(&self.os, id)).flatten()
    }

    /// Bytes of a heap that are in memory.
    pub fn heap_resident(&self, id: HeapId) -> u64 {
        self.inside(|_| self.tenants.resident(&self.os, &self.pages, id)).unwrap_or(0)
    }

    /// Spans of a class that a heap has.
    pub fn heap_spans(&self, id: HeapId, class: SizeClass) -> u64 {
        self.inside(|_| self.tenants.spans_of(&self.pages, id, class)).unwrap_or(0)
    }

    /// The name that a heap was given.
    pub fn heap_name(&self, id: HeapId) -> [u8; NAME_BYTES] {
        self.tenants.name(id)
    }

    /// Calls `take` with address and bytes of each block of a heap that is in use, with no lock held.
    pub fn each_block_of(&self, id: HeapId, take: impl FnMut(usize, usize)) {
        // Blocks in a cache are free, and their spans do not know it.
        let drained = self.in_slow_path(|_| self.tenants.drain(&self.store, id));
        self.obeyed(drained.unwrap_or(Ok(())));
        self.tenants.each_block(&self.pages, id, take);
    }

    /// Calls `take` with each heap, with no lock held.
    pub fn each_heap(&self, take: impl FnMut(HeapId)) {
        self.tenants.each(take);
    }

    /// Gives what a heap holds and nobody uses back to the system; the bytes.
    pub fn release_heap(&self, id: HeapId) -> usize {
        let tidied = self.in_slow_path(|_| self.tenants.tidy(&self.store, id));
        self.obeyed(tidied.unwrap_or(Ok(0)))
    }
}

fn some(address: usize) -> Result<usize, Refusal> {
    if address == 0 { Err(Refusal::Memory) } else { Ok(address) }
}
