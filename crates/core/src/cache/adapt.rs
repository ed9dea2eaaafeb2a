//! Capacities follow misses: a class that finds nothing or no place gets room where that is worth it
//! (`admission`), taken from the budget or from classes that need it less.

use super::admission::{Miss, ask_again, forget_half, is_worth_room, may_help, need_of};
use super::slab::{SMALL_BLOCKS, Slab, Word, most_cached};
use super::slab_cache::SlabCache;
use super::{Cache, Middle};
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::{MOST_BATCH, SizeClass};
use crate::os::Os;

/// Refusals of room before a look at all classes, which costs more than a visit to the middle. A power of
/// two, as the next.
const REFUSALS_BEFORE_LOOK: u32 = 8;

/// Refusals before what is known of misses counts half.
const REFUSALS_BEFORE_AGEING: u32 = 1024;

/// So many times as much a class has to need room to get some of another's.
const CLEARLY: f32 = 2.0;

/// A process that only allocates has no use for capacity until it has allocated much: so many refills. Each
/// class that moves to its big array costs a page, and a process of 2 MiB of small blocks should pay for
/// none.
const UNDERFLOWS_BEFORE_BIG: u64 = 4096;

impl<O: Os> Cache<O> {
    /// Allows more blocks of `class` in this cache; false where it stays as it is.
    pub(super) fn grow(
        &self,
        store: &impl Middle<O>,
        cache: &dyn SlabCache,
        class: SizeClass,
        miss: Miss,
    ) -> Result<bool, Misuse> {
        let slab = cache.slab();
        let word = slab.read(class);
        let capacity = word.capacity(class);
        let by = (class.shape().batch as usize).max(capacity / 4);
        let target = match capacity {
            0..SMALL_BLOCKS => SMALL_BLOCKS.min(capacity + by),
            _ => (capacity + by).min(most_cached(class)),
        };
        if target > SMALL_BLOCKS && store.condenses(class) {
            return Ok(false);
        }
        if target <= capacity || !may_help(slab, class, capacity, miss) {
            return Ok(false);
        }
        let underflows = slab.info().underflows.load(Ordering::Relaxed);
        if miss == Miss::Underflow && target > SMALL_BLOCKS && underflows < UNDERFLOWS_BEFORE_BIG {
            return Ok(false);
        }
        if target > SMALL_BLOCKS && !self.has_big_arrays(store.os(), slab) {
            return Ok(false);
        }
        let room = self.room(store, slab);
        // As much as there is room for.
        let target = match (target - capacity) * class.block_bytes() {
            bytes if bytes <= room => target,
            _ => capacity + room.checked_div(class.block_bytes()).unwrap_or(0),
        };
        let bytes = (target - capacity) * class.block_bytes();
        if bytes == 0 {
            ask_again(slab, class, miss);
            self.look_for_room(store, cache, class)?;
            return Ok(false);
        }
        // The small array is not worth a look at the clock.
        let worth = target <= SMALL_BLOCKS || is_worth_room(store, slab, class, capacity);
        if !worth || !self.take_room(store, cache, bytes) {
            return Ok(false);
        }
        let done = if word == Word::UNSET {
            cache.replace(class, word, Word::empty_small(class, target))
        } else if word.is_small() && target > SMALL_BLOCKS {
            self.move_to_big(store, cache, class, target)?
        } else {
            cache.replace(class, word, word.with_capacity(class, target))
        };
        if !done {
            self.give_room(store, cache, bytes);
        }
        Ok(done)
    }

    /// Moves a class from its small array to its big one: empties it, changes the word, fills it again.
    fn move_to_big(
        &self,
        store: &impl Middle<O>,
        cache: &dyn SlabCache,
        class: SizeClass,
        target: usize,
    ) -> Result<bool, Misuse> {
        let mut stash = [0; SMALL_BLOCKS];
        let count = cache.pop_batch(class, &mut stash);
        let emptied = Word::empty_small(class, SMALL_BLOCKS);
        let done = cache.replace(class, emptied, Word::empty_big(class, target));
        let blocks = stash.get_mut(..count).unwrap_or(&mut []);
        blocks.reverse();
        let kept = cache.push_batch(class, blocks);
        if let Some(over @ [_, ..]) = blocks.get(kept..) {
            store.give(class, over)?;
        }
        Ok(done)
    }

    /// Bytes that this cache may still have. A look: without room, nobody writes what all CPUs read.
    fn room(&self, store: &impl Middle<O>, slab: Slab) -> usize {
        let granted = slab.info().granted.load(Ordering::Relaxed);
        let own = self.share.load(Ordering::Relaxed).saturating_sub(granted);
        own.min(store.budget().room())
    }

    fn take_room(&self, store: &impl Middle<O>, cache: &dyn SlabCache, bytes: usize) -> bool {
        let slab = cache.slab();
        let granted = &slab.info().granted;
        let share = self.share.load(Ordering::Relaxed);
        let before = granted.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= share && store.budget().take(bytes);
        if !fits {
            granted.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn give_room(&self, store: &impl Middle<O>, cache: &dyn SlabCache, bytes: usize) {
        cache.slab().info().granted.fetch_sub(bytes, Ordering::Relaxed);
        store.budget().give(bytes);
    }

    /// Now and then, takes room from the class that needs it least, if that is clearly less than the one that
    /// wants it. So the last byte of each saves about as many misses, which no division of the room among the
    /// classes can better.
    fn look_for_room(
        &self,
        store: &impl Middle<O>,
        cache: &dyn SlabCache,
        wanting: SizeClass,
    ) -> Result<(), Misuse> {
        let slab = cache.slab();
        let info = slab.info();
        let refusals = info.refusals.load(Ordering::Relaxed);
        info.refusals.store(refusals.wrapping_add(1), Ordering::Relaxed);
        // A class that never fits is not worth robbing others for.
        let fits = wanting.block_bytes() <= self.share.load(Ordering::Relaxed);
        if !fits || !refusals.is_multiple_of(REFUSALS_BEFORE_LOOK) {
            return Ok(());
        }
        if refusals.is_multiple_of(REFUSALS_BEFORE_AGEING) {
            forget_half(slab);
        }
        let (mut least, mut need) = (wanting, need_of(slab, wanting) / CLEARLY);
        for class in SizeClass::all().filter(|class| slab.read(*class).capacity(*class) > 0) {
            let other = need_of(slab, class);
            (least, need) = if other < need { (class, other) } else { (least, need) };
        }
        if least == wanting { Ok(()) } else { self.shrink(store, cache, least) }
    }

    /// Halves the capacity of a class; blocks that lose their place go to the middle.
    fn shrink(&self, store: &impl Middle<O>, cache: &dyn SlabCache, class: SizeClass) -> Result<(), Misuse> {
        let word = cache.slab().read(class);
        let capacity = word.capacity(class);
        let target = capacity / 2;
        let mut batch = [0; MOST_BATCH];
        let excess = word.len(class).saturating_sub(target).min(MOST_BATCH);
        let count = batch.get_mut(..excess).map_or(0, |out| cache.pop_batch(class, out));
        let word = cache.slab().read(class);
        let target = target.max(word.len(class));
        if target < word.capacity(class) && cache.replace(class, word, word.with_capacity(class, target)) {
            self.give_room(store, cache, (word.capacity(class) - target) * class.block_bytes());
        }
        match batch.get(..count) {
            Some(blocks @ [_, ..]) => store.give(class, blocks),
            _ => Ok(()),
        }
    }
}
