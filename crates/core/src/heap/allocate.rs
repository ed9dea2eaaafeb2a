//! The ways to a block: from the cache, and past it.

use crate::base::Fresh;
use crate::cache::Counted;
use crate::class::{LARGEST_BYTES, MIN_ALIGN, SizeClass};
use crate::heap::Heap;
use crate::os::Os;
use crate::policy::{KEYED_BYTES, Leaving};

/// From here on a block of `calloc` often stays untouched in part: a miss looks for memory that need not be
/// written.
const OFTEN_UNTOUCHED_FROM: usize = 16 << 10;

impl<O: Os> Heap<O> {
    /// A block of at least `bytes`, aligned to 16; 0 where there is no memory or `bytes` is too much.
    #[inline(always)]
    pub fn allocate(&self, bytes: usize) -> usize {
        match self.allocate_fast(bytes) {
            0 => self.allocate_slow(bytes),
            block => block,
        }
    }

    /// A block for `allocate` if the cache has one; 0 otherwise.
    #[inline(always)]
    pub fn allocate_fast(&self, bytes: usize) -> usize {
        let block = self.cache.front.pop_for(bytes);
        if bytes <= KEYED_BYTES {
            self.keys.leave(SizeClass::tabled(bytes), Leaving::new(block))
        } else {
            block
        }
    }

    /// Whether a small request of so many bytes is served without being looked at.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn is_unseen(&self, bytes: usize) -> bool {
        self.cache.front.is_direct_for(bytes)
    }

    /// Does the work of `allocate` if the cache has no block, in this order:
    ///
    /// 1. A request that is to be a sample gets a place of its own (`allocate_sample`).
    /// 2. A thread without sequences looks into its cache under a lock, and into nothing else; while somebody watches, any
    ///    thread looks into its cache now that the request is counted (`pop_short`).
    /// 3. The thread is noted as inside (`in_slow_path`). A signal handler that interrupted it there, and any in a process
    ///    that aborts, gets emergency memory instead.
    /// 4. The first call of all starts the heap; then the caches' bound and the limits are learned, where the heap has
    ///    become large enough to ask for them (`Engine::take`).
    /// 5. The cache looks once more, since the thread may be on another CPU by now; it asks for room, and takes a
    ///    batch from the transfer array, else from spans, of which the pages may have to make one (`Cache::refill`).
    /// 6. If that gave nothing, all that is cached or idle comes back, and step 5 is tried once more (`relieve`); for a
    ///    large block only where it could be had then (`Upkeep::could_help`).
    /// 7. With no lock held any more, upkeep does what is due: a tick, relief, a portion of what is too much
    ///    (`Upkeep::after_slow_path`).
    /// 8. The thread is outside again, frees what handlers had to leave, and tells the program of a passed limit.
    #[cold]
    #[inline(never)]
    pub fn allocate_slow(&self, bytes: usize) -> usize {
        if bytes == 0 {
            let block = self.allocate_empty(MIN_ALIGN);
            return if block != 0 { block } else { self.allocate_slow(1) };
        }
        let counted = self.count_request(bytes, MIN_ALIGN);
        if counted == Counted::Sample {
            let block = self.allocate_sample(bytes, MIN_ALIGN);
            if block != 0 {
                return block;
            }
        }
        self.look_around_if_due(counted);
        if bytes <= LARGEST_BYTES && !self.is_aborting() {
            // The short way of threads without sequences, and of all while somebody watches.
            let block = self.pop_short(SizeClass::for_small(bytes));
            if block != 0 {
                return block;
            }
        }
        self.in_slow_path(|inside| {
            if bytes <= LARGEST_BYTES {
                self.allocate_class(inside, SizeClass::for_small(bytes), bytes)
            } else {
                self.allocate_large(inside, bytes, MIN_ALIGN).map_or(0, |fresh| fresh.address)
            }
        })
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, MIN_ALIGN))
    }

    /// A cached block by a way that needs no lock of the heap; 0 where there is none.
    #[inline]
    fn pop_short(&self, class: SizeClass) -> usize {
        let is_watched = self.cache.sampling.counts_each() || self.recording.is_on();
        let block = if is_watched { self.cache.pop_behind(class) } else { self.cache.pop_locked(class) };
        self.keys.leave(class, Leaving::new(block))
    }

    /// A block of at least `bytes` at a multiple of `align`, a power of two.
    pub fn allocate_aligned(&self, align: usize, bytes: usize) -> usize {
        match self.allocate_aligned_fast(align, bytes) {
            0 => self.allocate_aligned_slow(align, bytes),
            block => block,
        }
    }

    /// A block for `allocate_aligned` if the cache has one; 0 otherwise.
    #[inline(always)]
    pub fn allocate_aligned_fast(&self, align: usize, bytes: usize) -> usize {
        if !self.cache.front.is_direct() {
            return 0;
        }
        SizeClass::for_aligned(bytes, align)
            .map_or(0, |class| self.keys.leave(class, Leaving::new(self.cache.front.pop(class))))
    }

    #[cold]
    #[inline(never)]
    fn allocate_aligned_slow(&self, align: usize, bytes: usize) -> usize {
        if align <= MIN_ALIGN {
            return self.allocate_slow(bytes);
        }
        if bytes == 0 {
            let block = self.allocate_empty(align);
            return if block != 0 { block } else { self.allocate_aligned_slow(align, 1) };
        }
        let counted = self.count_request(bytes, align);
        if counted == Counted::Sample {
            let block = self.allocate_sample(bytes, align);
            if block != 0 {
                return block;
            }
        }
        self.look_around_if_due(counted);
        let class = SizeClass::for_aligned(bytes, align);
        if let Some(class) = class.filter(|_| !self.is_aborting()) {
            let block = self.pop_short(class);
            if block != 0 {
                return block;
            }
        }
        self.in_slow_path(|inside| match class {
            Some(class) => self.allocate_class(inside, class, bytes),
            None => self.allocate_large(inside, bytes, align).map_or(0, |fresh| fresh.address),
        })
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, align))
    }

    /// A block for `allocate_zeroed` if the cache has one; 0 otherwise.
    #[inline(always)]
    pub fn allocate_zeroed_fast(&self, count: usize, bytes: usize) -> usize {
        let Some(total) = count.checked_mul(bytes) else { return 0 };
        let block = self.allocate_fast(total);
        if block != 0 {
            // SAFETY: the block is ours and at least `total` bytes long.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(block).write_bytes(0, total) };
        }
        block
    }

    /// A zeroed block for `count` objects of `bytes` each; 0 also where the product is too much.
    #[inline]
    pub fn allocate_zeroed(&self, count: usize, bytes: usize) -> usize {
        let Some(total) = count.checked_mul(bytes) else { return 0 };
        if total > LARGEST_BYTES {
            return self.allocate_large_zeroed(MIN_ALIGN, total);
        }
        let block = match self.allocate_fast(total) {
            0 if total >= OFTEN_UNTOUCHED_FROM => return self.allocate_untouched(total),
            0 => self.allocate_slow(total),
            block => block,
        };
        if block != 0 {
            // SAFETY: the block is ours and at least `total` bytes long.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(block).write_bytes(0, total) };
        }
        block
    }

    /// A zeroed block of at least `bytes` at a multiple of `align`, a power of two.
    pub fn allocate_aligned_zeroed(&self, align: usize, bytes: usize) -> usize {
        if align <= MIN_ALIGN {
            return self.allocate_zeroed(1, bytes);
        }
        if SizeClass::for_aligned(bytes, align).is_none() {
            return self.allocate_large_zeroed(align, bytes);
        }
        let block = self.allocate_aligned(align, bytes);
        if block != 0 {
            // SAFETY: the block is ours and at least `bytes` long.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(block).write_bytes(0, bytes) };
        }
        block
    }

    /// A zeroed block of a class, whose memory is not touched where it is known to read as zeros.
    #[cold]
    #[inline(never)]
    fn allocate_untouched(&self, bytes: usize) -> usize {
        let sample =
            if self.sample_is_due(bytes, MIN_ALIGN) { self.allocate_sample(bytes, MIN_ALIGN) } else { 0 };
        if sample != 0 {
            self.large.clear(&self.os, &self.pages, Fresh { address: sample, zeroed: false }, bytes);
            return sample;
        }
        let class = SizeClass::for_small(bytes);
        self.in_slow_path(
            |inside| if self.is_started() { self.engine.take_zeroed(inside, class, bytes) } else { 0 },
        )
        // Emergency memory is zero.
        .unwrap_or_else(|| self.allocate_in_emergency(bytes, MIN_ALIGN))
    }

    #[cold]
    #[inline(never)]
    fn allocate_large_zeroed(&self, align: usize, bytes: usize) -> usize {
        let cleared = |fresh| {
            self.large.clear(&self.os, &self.pages, fresh, bytes);
            self.note_large(fresh.address, bytes);
            fresh.address
        };
        self.in_slow_path(|inside| self.allocate_large(inside, bytes, align).map_or(0, cleared))
            // Emergency memory is zero.
            .unwrap_or_else(|| self.allocate_in_emergency(bytes, align))
    }
}
