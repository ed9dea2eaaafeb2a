//! Misses: the fast path found no block, or no place for one.

use super::admission::{Miss, count_miss, moved_at_once, note_underflow};
use super::slab::Slab;
use super::slab_cache::SlabCache;
use super::tables::WORD;
use super::{Cache, Middle};
use crate::base::Fresh;
use crate::base::fault::{Fault, Misuse};
use crate::base::sync::{AtomicU64, Ordering};
use crate::class::{MOST_BATCH, SizeClass};
use crate::os::Os;

/// So many blocks and fewer move by a short list: clearing a long one costs more than moving them.
const FEW: usize = 8;

/// Threads that share a virtual CPU take turns, so a count that is lost to a preemption is the price of a
/// cheap one.
fn count_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Looks whether `block` is one of the two that were put last: the one double free that can be seen at once
/// for the price of two comparisons. The thread that frees a block owns it, so it cannot rightly be here,
/// however the slab changes meanwhile.
fn freed_just_now(slab: Slab, class: SizeClass, block: usize) -> Result<(), Misuse> {
    let word = slab.read(class);
    for (frees_between, place) in (0..word.len(class).min(2)).enumerate() {
        let offset = word.top() - place * WORD;
        if slab.entry(offset).load(Ordering::Relaxed) == block {
            return Err(Misuse {
                block: Some((block, class.block_bytes())),
                frees_between: Some(frees_between as u32),
                ..Misuse::at(Fault::DoubleFree, block)
            });
        }
    }
    Ok(())
}

impl<O: Os> Cache<O> {
    /// Times that the fast path found nothing on this virtual CPU; 0 where it has no cache.
    pub fn underflows_here(&self) -> u64 {
        if self.slots.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let slab = self.made(self.slot()).load(Ordering::Acquire);
        if slab == 0 { 0 } else { Slab(slab).info().underflows.load(Ordering::Relaxed) }
    }

    /// A free block for a fast path that found none; 0 where there is no memory.
    pub fn refill(&self, store: &impl Middle<O>, class: SizeClass) -> Result<usize, Misuse> {
        self.with_slab_cache(store.os(), |cache| match cache {
            Some(cache) => self.refill_slab(store, cache, class),
            None => {
                let mut one = [0];
                store.take(class, &mut one);
                let [block] = one;
                Ok(block)
            }
        })
    }

    fn refill_slab(
        &self,
        store: &impl Middle<O>,
        cache: &dyn SlabCache,
        class: SizeClass,
    ) -> Result<usize, Misuse> {
        let block = cache.pop(class);
        if block != 0 {
            return Ok(block);
        }
        count_one(&cache.slab().info().underflows);
        count_miss(cache.slab(), class);
        self.grow(store, cache, class, Miss::Underflow)?;
        let room = cache.slab().read(class).capacity(class);
        match moved_at_once(class, room) {
            wanted @ ..=FEW => self.refill_batch::<FEW, _>(store, cache, class, wanted),
            wanted => self.refill_batch::<MOST_BATCH, _>(store, cache, class, wanted),
        }
    }

    fn refill_batch<const MOST: usize, M: Middle<O>>(
        &self,
        store: &M,
        cache: &dyn SlabCache,
        class: SizeClass,
        wanted: usize,
    ) -> Result<usize, Misuse> {
        let mut batch = [0; MOST];
        let Some(out) = batch.get_mut(..wanted) else { return Ok(0) };
        let count = store.take(class, out);
        let Some((first, rest)) = out.get_mut(..count).and_then(|taken| taken.split_first_mut()) else {
            return Ok(0);
        };
        self.count_refilled(rest.len() * class.block_bytes());
        // The array is a stack: the lowest address goes in last and comes out next.
        rest.reverse();
        let kept = cache.push_batch(class, rest);
        if let Some(over @ [_, ..]) = rest.get(kept..) {
            store.give(class, over)?;
        }
        Ok(*first)
    }

    /// A free block that is to read as zeros. One at a time: in a cache it would not be known any more.
    pub fn refill_zeroed(&self, store: &impl Middle<O>, class: SizeClass) -> Fresh {
        let cached = self.with_slab_cache(store.os(), |cache| {
            cache.map_or(0, |cache| {
                let block = cache.pop(class);
                if block == 0 {
                    count_one(&cache.slab().info().underflows);
                    note_underflow(cache.slab(), class);
                }
                block
            })
        });
        if cached != 0 {
            return Fresh { address: cached, zeroed: false };
        }
        store.take_one(class)
    }

    /// Takes a block for which the fast path found no place.
    pub fn spill(&self, store: &impl Middle<O>, class: SizeClass, block: usize) -> Result<(), Misuse> {
        self.with_slab_cache(store.os(), |cache| match cache {
            Some(cache) => self.spill_slab(store, cache, class, block),
            None => store.give(class, &[block]),
        })
    }

    /// Stops where a block is one of the two that this thread's cache took last.
    pub fn look_for(&self, store: &impl Middle<O>, class: SizeClass, block: usize) -> Result<(), Misuse> {
        self.with_slab_cache(store.os(), |cache| {
            cache.map_or(Ok(()), |cache| freed_just_now(cache.slab(), class, block))
        })
    }

    fn spill_slab(
        &self,
        store: &impl Middle<O>,
        cache: &dyn SlabCache,
        class: SizeClass,
        block: usize,
    ) -> Result<(), Misuse> {
        freed_just_now(cache.slab(), class, block)?;
        if cache.push(class, block) {
            return Ok(());
        }
        count_one(&cache.slab().info().overflows);
        count_miss(cache.slab(), class);
        if self.grow(store, cache, class, Miss::Overflow)? && cache.push(class, block) {
            return Ok(());
        }
        match moved_at_once(class, cache.slab().read(class).capacity(class)) {
            wanted @ ..FEW => self.spill_batch::<FEW, _>(store, cache, class, block, wanted),
            wanted => {
                self.spill_batch::<MOST_BATCH, _>(store, cache, class, block, wanted.min(MOST_BATCH - 1))
            }
        }
    }

    fn spill_batch<const MOST: usize, M: Middle<O>>(
        &self,
        store: &M,
        cache: &dyn SlabCache,
        class: SizeClass,
        block: usize,
        wanted: usize,
    ) -> Result<(), Misuse> {
        let mut batch = [0; MOST];
        let count = batch.get_mut(..wanted).map_or(0, |out| cache.pop_batch(class, out));
        // The block just freed is warm and stays, if there is place now.
        let count = if cache.push(class, block) {
            count
        } else {
            if let Some(place) = batch.get_mut(count) {
                *place = block;
            }
            count + 1
        };
        store.give(class, batch.get(..count).unwrap_or(&[]))
    }

    /// Does the work of malloc's fast path, for a heap whose fast path is off.
    pub fn pop_behind(&self, class: SizeClass) -> usize {
        match self.behind.pop(class) {
            0 => self.pop_locked(class),
            block => block,
        }
    }

    /// Does the work of free's fast path, for a heap whose fast path is off.
    pub fn push_behind(&self, class: SizeClass, block: usize) -> bool {
        self.behind.push(class, block) || self.push_locked(class, block)
    }

    /// `Front::pop` for a thread without sequences; 0 for all others.
    pub fn pop_locked(&self, class: SizeClass) -> usize {
        self.locked().map_or(0, |cache| cache.pop(class))
    }

    /// `Front::push` for a thread without sequences; false for all others, and for a block freed just now.
    pub fn push_locked(&self, class: SizeClass, block: usize) -> bool {
        class.is_small()
            && self.locked().is_some_and(|cache| {
                freed_just_now(cache.slab, class, block).is_ok() && cache.push(class, block)
            })
    }
}
