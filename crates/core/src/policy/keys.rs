//! The key that tells a freed block from a live one at its next free: in its second word, from free to malloc.
//!
//! The key is random for each process and mixed with the block's address, so that no copy of a freed block carries it.
//! If free finds it, the block is freed twice, or a free of it was interrupted, or chance has written it: then it is
//! looked for in the caches and in its span. Only blocks of up to 64 bytes have one: a program has usually just touched
//! their only line, while the first line of a larger one may be far away (docs/decisions/0081).

use super::Leaving;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::class::SizeClass;

/// The largest block that has a key while it is free.
pub const KEYED_BYTES: usize = 64;
/// Of an address of 47 bits no word with this bit can be one, so no pointer of the program is taken for a key.
const NO_ADDRESS: usize = 1 << 63;

#[inline(always)]
fn is_keyed(class: SizeClass) -> bool {
    class.index().wrapping_sub(1) < SizeClass::computed(KEYED_BYTES).index()
}

#[inline(always)]
fn second_word(block: usize) -> *mut usize {
    core::ptr::with_exposed_provenance_mut(block + size_of::<usize>())
}

/// The key of a heap. Zeroed its blocks carry none: a policy that keeps marks of its own needs none.
pub struct Keys {
    key: AtomicUsize,
}

impl Keys {
    /// The offset of the key, for paths that are written whole.
    #[cfg(target_arch = "x86_64")]
    pub const KEY: usize = core::mem::offset_of!(Self, key);

    pub const fn new() -> Self {
        Keys { key: AtomicUsize::new(0) }
    }

    /// Before the first block: the key is made of a random number.
    pub fn start(&self, random: u64) {
        self.key.store(random as usize | NO_ADDRESS, Ordering::Relaxed);
    }

    /// The key of a block; 0 where there are none.
    #[inline(always)]
    fn key_of(&self, class: SizeClass, block: usize) -> usize {
        let key = self.key.load(Ordering::Relaxed);
        if key == 0 || !is_keyed(class) { 0 } else { key ^ block }
    }

    /// The address of a block that leaves for the program.
    #[inline(always)]
    pub fn leave(&self, class: SizeClass, Leaving(block): Leaving) -> usize {
        if block != 0 && self.key_of(class, block) != 0 {
            // SAFETY: the block is ours and at least 16 bytes long.
            unsafe { second_word(block).write_volatile(0) };
        }
        block
    }

    /// Puts a block that the program frees to where `push` keeps it; false where it has no place, or the block looks freed.
    #[inline(always)]
    pub fn arrive(&self, class: SizeClass, block: usize, push: impl FnOnce() -> bool) -> bool {
        let key = self.key_of(class, block);
        if key == 0 {
            return push();
        }
        let word = second_word(block);
        // SAFETY: a block that its span gave out has memory, at least 16 bytes of it; until it is pushed it is its owner's.
        unsafe {
            if word.read_volatile() == key {
                return false;
            }
            word.write_volatile(key);
            let is_pushed = push();
            if !is_pushed {
                word.write_volatile(0);
            }
            is_pushed
        }
    }

    /// Whether a block that its span says it gave out carries its key. A live block may, by chance or by an interrupted
    /// free.
    #[inline(always)]
    pub fn looks_freed(&self, class: SizeClass, block: usize) -> bool {
        let key = self.key_of(class, block);
        // SAFETY: a block that its span gave out has memory, at least 16 bytes of it.
        key != 0 && unsafe { second_word(block).read_volatile() } == key
    }

    /// Gives a freed block its key, where its way to a cache or a span was found in a slow path.
    pub fn put(&self, class: SizeClass, block: usize) {
        let key = self.key_of(class, block);
        if key != 0 {
            // SAFETY: as above; until it is in a cache nobody else has it.
            unsafe { second_word(block).write_volatile(key) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::os::fake::Fake;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn patient() -> Box<Heap<Fake>> {
        let mut os = Fake::default();
        (os.panics, os.quiet) = (true, true);
        Box::new(Heap::new(os))
    }

    fn aborts(heap: &Heap<Fake>, address: usize) -> bool {
        catch_unwind(AssertUnwindSafe(|| heap.free(address))).is_err()
    }

    #[test]
    fn a_small_block_freed_twice_is_stopped_at_the_call_however_many_frees_lie_between() {
        for bytes in [1, 16, 50, KEYED_BYTES] {
            for others in [0, 1, 2, 10, 5000] {
                let heap = patient();
                let block = heap.allocate(bytes);
                let between: Vec<_> = (0..others).map(|_| heap.allocate(bytes)).collect();
                heap.free(block);
                between.into_iter().for_each(|other| heap.free(other));
                assert!(aborts(&heap, block), "{bytes} bytes, {others} frees between");
            }
        }
    }

    /// As an interrupted free leaves it.
    #[test]
    fn a_live_block_that_carries_its_key_is_freed_and_serves_again() {
        let heap = patient();
        let block = heap.allocate(64);
        let key = heap.keys.key_of(SizeClass::for_small(64), block);
        assert_ne!(key, 0);
        // SAFETY: the block is ours.
        unsafe { second_word(block).write(key) };
        assert!(!aborts(&heap, block));
        assert!(aborts(&heap, block));
    }

    fn with_sequences() -> Box<Heap<Fake>> {
        let mut os = Fake::default();
        (os.panics, os.quiet, os.has_sequences) = (true, true, true);
        Box::new(Heap::new(os))
    }

    fn cached(heap: &Heap<Fake>) -> u64 {
        SizeClass::all()
            .map(|class| heap.cache.cached_blocks(class) + heap.central.stats(class).transfer_blocks)
            .sum()
    }

    /// As interrupted frees leave them.
    #[test]
    fn live_blocks_that_carry_their_keys_are_freed_and_no_cache_is_emptied() {
        for heap in [patient(), with_sequences()] {
            for bytes in (16..2048).step_by(16) {
                let blocks: Vec<_> = (0..100).map(|_| heap.allocate(bytes)).collect();
                blocks.into_iter().for_each(|block| heap.free(block));
            }
            let blocks: Vec<_> = (0..300).map(|_| heap.allocate(32)).collect();
            let (before, class) = (cached(&heap), SizeClass::for_small(32));
            assert!(before > 500);
            for block in &blocks {
                // SAFETY: the block is ours.
                unsafe { second_word(*block).write(heap.keys.key_of(class, *block)) };
                heap.free(*block);
            }
            assert!(cached(&heap) >= before, "{} of {before}", cached(&heap));
            heap.audit();
        }
    }

    #[test]
    fn frees_that_find_their_keys_beside_busy_threads_are_no_double_frees() {
        let (heap, class) = (with_sequences(), SizeClass::for_small(64));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let blocks: Vec<_> = (0..2000).map(|_| heap.allocate(64)).collect();
                        blocks.into_iter().for_each(|block| heap.free(block));
                    }
                });
            }
            for _ in 0..500 {
                let block = heap.allocate(64);
                // SAFETY: the block is ours.
                unsafe { second_word(block).write(heap.keys.key_of(class, block)) };
                heap.free(block);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        heap.audit();
    }

    /// On each way that it may go: into the depth of a cache, that of another thread, the transfer array or its span.
    #[test]
    fn a_block_that_was_freed_is_found_wherever_it_lies() {
        for make in [patient, with_sequences] {
            for (blocks, threads) in [(3, 1), (100, 1), (1000, 3), (20_000, 1), (20_000, 7), (60_000, 2)] {
                let heap = make();
                let all: Vec<_> = (0..blocks).map(|_| heap.allocate(64)).collect();
                std::thread::scope(|scope| {
                    for part in all.chunks(blocks / threads) {
                        let heap = &heap;
                        scope.spawn(move || part.iter().for_each(|block| heap.free(*block)));
                    }
                });
                assert!(aborts(&heap, all[blocks / 2]), "{blocks} blocks, {threads} threads");
            }
        }
    }

    #[test]
    fn no_block_carries_a_key_to_the_program_whichever_way_it_comes() {
        let heap = patient();
        // SAFETY: the block is live.
        let word = |block: usize| unsafe { second_word(block).read() };
        let ways: [&dyn Fn() -> usize; 4] =
            [&|| heap.allocate(48), &|| heap.allocate_aligned(16, 48), &|| heap.reallocate(0, 48), &|| {
                heap.allocate_zeroed(1, 48)
            }];
        for _ in 0..3 {
            for way in ways {
                let blocks: Vec<_> = (0..3000).map(|_| way()).collect();
                assert!(blocks.iter().all(|block| word(*block) == 0));
                blocks.into_iter().for_each(|block| heap.free(block));
                heap.audit();
            }
        }
    }

    #[test]
    fn a_freed_block_is_not_resized_in_place_either() {
        let heap = patient();
        let blocks: Vec<_> = (0..10).map(|_| heap.allocate(64)).collect();
        blocks.iter().for_each(|block| heap.free(*block));
        let resized = || heap.reallocate(blocks[0], 60);
        assert!(catch_unwind(AssertUnwindSafe(resized)).is_err());
    }

    #[test]
    fn a_copy_of_a_freed_block_is_no_key_elsewhere() {
        let heap = patient();
        let (freed, live) = (heap.allocate(64), heap.allocate(64));
        heap.free(freed);
        // SAFETY: a freed block's memory is still there; the other one is ours.
        unsafe { core::ptr::copy_nonoverlapping(freed as *const u8, live as *mut u8, 64) };
        // SAFETY: it is ours.
        let word = unsafe { second_word(live).read() };
        let class = SizeClass::for_small(64);
        assert_eq!(word, heap.keys.key_of(class, freed));
        assert_ne!(word, heap.keys.key_of(class, live));
    }
}
