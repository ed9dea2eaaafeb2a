//! Blocks that signal handlers freed inside a slow path of their own thread: they are freed when the next slow path ends.

use crate::base::ceilings::DEFERRED_FREES;
use crate::base::sync::{AtomicUsize, Ordering, update};

/// A note of each further one, in emergency memory, has two words: the block, and the note made before.
const NOTE_BYTES: usize = 2 * size_of::<usize>();

/// Blocks that signal handlers freed inside slow paths. Any thread may call anything at any time, a handler too.
pub struct Deferred {
    places: [AtomicUsize; DEFERRED_FREES],
    /// The last note, from which a chain leads to the others. In memory of their own and not in the blocks: a block
    /// that is freed twice would close the chain to a ring, and what is freed need not be a block.
    notes: AtomicUsize,
    count: AtomicUsize,
}

impl Deferred {
    pub const fn new() -> Self {
        Deferred {
            places: [const { AtomicUsize::new(0) }; DEFERRED_FREES],
            notes: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Keeps a block that a signal handler freed. `memory` gives the address of so many bytes for a note where all
    /// places are taken, 0 if it has none: only then the block is lost.
    pub fn keep(&self, block: usize, memory: impl FnOnce(usize) -> usize) {
        // Release pairs with the Acquire in `take_all`: the handler's writes come before those of the next owner.
        let put = |place: &AtomicUsize| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, block, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if self.places.iter().any(put) || self.note(block, memory(NOTE_BYTES)) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note(&self, block: usize, note: usize) -> bool {
        if note == 0 {
            return false;
        }
        let place = core::ptr::with_exposed_provenance_mut::<[usize; 2]>(note);
        let link = |last| {
            // SAFETY: the memory is ours alone until the chain leads to it.
            unsafe { place.write([block, last]) };
            Some(note)
        };
        // Notes are only taken all at once, so one that is in the chain stays there while this one is put before it.
        update(&self.notes, Ordering::Release, Ordering::Relaxed, link).is_ok()
    }

    /// Takes all notes; calls `take` with each, and the block in it.
    fn take_notes(&self, mut take: impl FnMut(usize, usize)) {
        let mut note = self.notes.swap(0, Ordering::Acquire);
        while note != 0 {
            // SAFETY: a note in the chain is whole, and the exchange made this one ours.
            let [block, before] = unsafe { core::ptr::with_exposed_provenance::<[usize; 2]>(note).read() };
            self.count.fetch_sub(1, Ordering::Relaxed);
            take(note, block);
            note = before;
        }
    }

    /// Whether a signal handler had to leave a block.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Takes all blocks that signal handlers left: calls `free` with each, and `done` with each note that is not needed
    /// any more. False where there was none.
    pub fn take_all(&self, free: impl Fn(usize), done: impl Fn(usize)) -> bool {
        let mut any = false;
        for place in &self.places {
            let block = place.swap(0, Ordering::Acquire);
            if block != 0 {
                self.count.fetch_sub(1, Ordering::Relaxed);
                free(block);
                any = true;
            }
        }
        self.take_notes(|note, block| {
            done(note);
            free(block);
            any = true;
        });
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::os::fake::Fake;

    #[test]
    fn a_handler_may_free_any_number_of_blocks_and_each_is_freed_once() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> = (0..5000).map(|_| heap.allocate(300_000)).collect();
        let entry = heap.enter_for_test();
        blocks.iter().for_each(|block| heap.free(*block));
        drop(entry);
        heap.free(heap.allocate(400_000));
        assert_eq!(heap.stats().large_blocks, 0);
        assert_eq!(heap.deferred.count.load(Ordering::Relaxed), 0);
        // The memory of the notes can be had again.
        assert_ne!(heap.sources.emergency.allocate(&Fake::default(), 4_000_000, 16), 0);
    }

    #[test]
    fn a_block_that_a_handler_frees_twice_is_known_when_the_slow_path_ends() {
        let mut os = Fake::default();
        (os.panics, os.quiet) = (true, true);
        let heap = Box::new(Heap::new(os));
        let block = heap.allocate(300_000);
        let others: Vec<usize> = (0..DEFERRED_FREES).map(|_| heap.allocate(300_000)).collect();
        let entry = heap.enter_for_test();
        others.iter().chain([&block, &block]).for_each(|block| heap.free(*block));
        drop(entry);
        let end = std::panic::AssertUnwindSafe(|| heap.free(heap.allocate(400_000)));
        assert!(std::panic::catch_unwind(end).is_err(), "a double free, and no ring of notes");
    }
}
