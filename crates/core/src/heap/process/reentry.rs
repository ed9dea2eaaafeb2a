//! Which threads are inside a slow path: so that a signal handler that interrupted one of its own thread can
//! tell, and does not wait for the locks that its thread holds.
//!
//! A thread writes its number into a place of its own choice before it goes in, and takes it out when it
//! leaves. What its handlers free meanwhile waits here too. `slow_path` goes through here; a handler is
//! served by `emergency`.

use crate::base::sync::{AtomicUsize, Ordering, update};
use crate::heap::Heap;
use crate::os::Os;
use core::sync::atomic::compiler_fence;

/// A power of two. A thousand threads may wait inside slow paths for one lock, and each has its place.
const BUCKETS: usize = 256;
const PLACES: usize = 8;
/// Buckets after its own in which a thread may stand that found its own full.
const NEIGHBOURS: usize = 3;
/// Blocks that handlers freed and that wait without memory for a note of them.
const DEFERRED: usize = 64;
/// What is noted of each further one, in emergency memory: the block, and the note made before.
const NOTE_BYTES: usize = 2 * size_of::<usize>();

/// Which threads are inside a slow path, and what their signal handlers freed meanwhile.
pub struct SlowPaths {
    buckets: [Bucket; BUCKETS],
    /// At least as many as stand outside their own bucket.
    strays: AtomicUsize,
    deferred: [AtomicUsize; DEFERRED],
    /// The last note, from which a chain leads to the others. In memory of their own and not in the blocks: a block
    /// that is freed twice would close the chain to a ring, and what is freed need not be a block.
    notes: AtomicUsize,
    deferred_count: AtomicUsize,
}

/// A cache line: threads on different CPUs enter slow paths at the same time, each looks at its own.
#[repr(align(64))]
struct Bucket([AtomicUsize; PLACES]);

/// This thread is in a slow path until the value is dropped.
pub struct Entry<'a> {
    place: &'a AtomicUsize,
    strays: Option<&'a AtomicUsize>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        // A handler that comes now finds the thread inside, or its locks free.
        compiler_fence(Ordering::Release);
        self.place.store(0, Ordering::Relaxed);
        if let Some(strays) = self.strays {
            strays.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// How long a thread waits that finds no place, in nanoseconds.
const FULL_WAIT: u64 = 50_000;

/// The bucket of a thread (Fibonacci hashing: Knuth, TAOCP 3, 6.4).
fn bucket_of(thread: usize) -> usize {
    (thread >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - BUCKETS.ilog2())
}

impl SlowPaths {
    pub const fn new() -> Self {
        SlowPaths {
            buckets: [const { Bucket([const { AtomicUsize::new(0) }; PLACES]) }; BUCKETS],
            strays: AtomicUsize::new(0),
            deferred: [const { AtomicUsize::new(0) }; DEFERRED],
            notes: AtomicUsize::new(0),
            deferred_count: AtomicUsize::new(0),
        }
    }

    /// The places of the `nth` bucket in which a thread may stand.
    fn places(&self, thread: usize, nth: usize) -> impl Iterator<Item = &AtomicUsize> {
        self.buckets.get((bucket_of(thread) + nth) % BUCKETS).into_iter().flat_map(|Bucket(places)| places)
    }

    fn places_elsewhere(&self, thread: usize) -> impl Iterator<Item = &AtomicUsize> {
        (1..=NEIGHBOURS).flat_map(move |nth| self.places(thread, nth))
    }

    /// None if this thread is inside a slow path already, which only a signal handler can see. A thread that
    /// cannot be noted does not go in: its handlers would wait for the locks that it holds. `full` is called
    /// until there is a place.
    ///
    /// Only the thread itself writes its own number, so relaxed order is enough: a handler sees what its
    /// thread wrote, in the order that `compiler_fence` keeps.
    #[inline]
    pub fn enter<O: Os>(&self, mut full: impl FnMut()) -> Option<Entry<'_>> {
        let thread = O::thread_id();
        // All places first: the thread may stand behind one that has become free since.
        if self.holds(thread) {
            return None;
        }
        loop {
            if let Some(place) = self.places(thread, 0).find(|place| take(place, thread)) {
                return Some(Entry { place, strays: None });
            }
            if let Some(entry) = self.enter_elsewhere(thread) {
                return Some(entry);
            }
            full();
        }
    }

    #[inline]
    fn holds(&self, thread: usize) -> bool {
        let own = |place: &AtomicUsize| place.load(Ordering::Relaxed) == thread;
        self.places(thread, 0).any(own)
            || self.strays.load(Ordering::Relaxed) != 0 && self.places_elsewhere(thread).any(own)
    }

    #[cold]
    fn enter_elsewhere(&self, thread: usize) -> Option<Entry<'_>> {
        // Counted first: a handler of this thread looks elsewhere only where somebody is counted.
        self.strays.fetch_add(1, Ordering::Relaxed);
        let place = self.places_elsewhere(thread).find(|place| take(place, thread));
        if place.is_none() {
            self.strays.fetch_sub(1, Ordering::Relaxed);
        }
        place.map(|place| Entry { place, strays: Some(&self.strays) })
    }

    /// Keeps a block that a signal handler freed. `memory` gives the address of so many bytes for a note where all
    /// places are taken, 0 if it has none: only then the block is lost.
    pub fn defer(&self, block: usize, memory: impl FnOnce(usize) -> usize) {
        // Release pairs with the Acquire in `take_deferred`: what the handler wrote comes before what the
        // next owner writes.
        let keep = |place: &AtomicUsize| {
            place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, block, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if self.deferred.iter().any(keep) || self.note(block, memory(NOTE_BYTES)) {
            self.deferred_count.fetch_add(1, Ordering::Relaxed);
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
            self.deferred_count.fetch_sub(1, Ordering::Relaxed);
            take(note, block);
            note = before;
        }
    }

    /// Whether a signal handler had to leave a block.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        self.deferred_count.load(Ordering::Relaxed) != 0
    }

    /// Takes all blocks that signal handlers left: calls `free` with each, and `done` with each note that is not needed
    /// any more. False where there was none.
    pub fn take_deferred(&self, free: impl Fn(usize), done: impl Fn(usize)) -> bool {
        let mut any = false;
        for place in &self.deferred {
            let block = place.swap(0, Ordering::Acquire);
            if block != 0 {
                self.deferred_count.fetch_sub(1, Ordering::Relaxed);
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

    fn all_places(&self) -> impl Iterator<Item = &AtomicUsize> {
        self.buckets.iter().flat_map(|Bucket(places)| places)
    }

    /// Whether this thread is in a slow path that a signal handler interrupted.
    pub fn is_inside<O: Os>(&self) -> bool {
        self.holds(O::thread_id())
    }

    /// In a child process a thread of this number is gone.
    pub fn forget_one(&self, gone: usize) {
        let of_it = |place: &&AtomicUsize| place.load(Ordering::Relaxed) == gone;
        self.all_places().filter(of_it).for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// In a child process the threads of others are gone. They stay counted: this thread may be about to
    /// stray. Writes only where somebody stands: what is written is a page that a child does not share with
    /// its parent any more.
    pub fn forget_others<O: Os>(&self) {
        for place in self.all_places() {
            let thread = place.load(Ordering::Relaxed);
            if thread != 0 && thread != O::thread_id() {
                place.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn take(place: &AtomicUsize, thread: usize) -> bool {
    // A look first: a place that is taken is not worth a locked instruction.
    let taken = place.load(Ordering::Relaxed) == 0
        && place.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    // What follows takes locks: a handler that finds one held by its thread finds the thread noted.
    compiler_fence(Ordering::Acquire);
    taken
}

impl<O: Os> Heap<O> {
    /// Notes that this thread goes into a slow path; none where it is in one already.
    #[inline]
    pub(crate) fn enter_slow_path(&self) -> Option<Entry<'_>> {
        let enter = || {
            self.slow_paths.enter::<O>(|| {
                self.forget_absent();
                self.os.sleep(FULL_WAIT);
            })
        };
        let mut entry = enter();
        if entry.is_none() && self.forget_namesake() {
            entry = enter();
        }
        self.know_process(entry.is_some());
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    #[test]
    fn a_thread_enters_a_slow_path_once_at_a_time() {
        let paths = SlowPaths::new();
        let entry = paths.enter::<Fake>(|| ());
        assert!(entry.is_some() && paths.enter::<Fake>(|| ()).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(paths.enter::<Fake>(|| ()).is_some(), "another thread may"));
        });
        drop(entry);
        assert!(paths.enter::<Fake>(|| ()).is_some());
    }

    #[test]
    fn a_thread_is_found_behind_a_place_that_became_free() {
        let paths = SlowPaths::new();
        let Bucket(own) = &paths.buckets[bucket_of(Fake::thread_id())];
        own[0].store(64, Ordering::Relaxed);
        let entry = paths.enter::<Fake>(|| ());
        own[0].store(0, Ordering::Relaxed);
        assert!(entry.is_some() && paths.enter::<Fake>(|| ()).is_none());
    }

    #[test]
    fn a_thread_is_noted_however_many_are_inside() {
        let paths = SlowPaths::new();
        let Bucket(own) = &paths.buckets[bucket_of(Fake::thread_id())];
        own.iter().for_each(|place| place.store(64, Ordering::Relaxed));
        let entry = paths.enter::<Fake>(|| panic!("there is room in the next bucket"));
        assert!(entry.is_some() && paths.enter::<Fake>(|| ()).is_none());
        own[0].store(0, Ordering::Relaxed);
        assert!(paths.enter::<Fake>(|| ()).is_none(), "not even where its own has room again");
        drop(entry);
        own[0].store(64, Ordering::Relaxed);
        let entry = paths.enter::<Fake>(|| ());
        assert!(entry.is_some() && paths.is_inside::<Fake>());
        drop(entry);
        assert!(!paths.is_inside::<Fake>());
        assert_eq!(paths.strays.load(Ordering::Relaxed), 0);

        paths.all_places().for_each(|place| place.store(64, Ordering::Relaxed));
        let mut waited = 0;
        let entry = paths.enter::<Fake>(|| {
            waited += 1;
            if waited == 3 {
                paths.forget_others::<Fake>();
            }
        });
        assert!(entry.is_some() && waited == 3, "it does not go in unnoted");
    }

    #[test]
    fn a_handler_may_free_any_number_of_blocks_and_each_is_freed_once() {
        let heap = Box::new(Heap::new(Fake::default()));
        let blocks: Vec<usize> = (0..5000).map(|_| heap.allocate(300_000)).collect();
        let entry = heap.slow_paths.enter::<Fake>(|| ());
        blocks.iter().for_each(|block| heap.free(*block));
        drop(entry);
        heap.free(heap.allocate(400_000));
        assert_eq!(heap.stats().large_blocks, 0);
        assert_eq!(heap.slow_paths.deferred_count.load(Ordering::Relaxed), 0);
        // The memory of the notes can be had again.
        assert_ne!(heap.emergency.allocate(&Fake::default(), 4_000_000, 16), 0);
    }

    #[test]
    fn a_block_that_a_handler_frees_twice_is_known_when_the_slow_path_ends() {
        let mut os = Fake::default();
        (os.panics, os.quiet) = (true, true);
        let heap = Box::new(Heap::new(os));
        let block = heap.allocate(300_000);
        let others: Vec<usize> = (0..DEFERRED).map(|_| heap.allocate(300_000)).collect();
        let entry = heap.slow_paths.enter::<Fake>(|| ());
        others.iter().chain([&block, &block]).for_each(|block| heap.free(*block));
        drop(entry);
        let end = std::panic::AssertUnwindSafe(|| heap.free(heap.allocate(400_000)));
        assert!(std::panic::catch_unwind(end).is_err(), "a double free, and no ring of notes");
    }

    #[test]
    fn in_a_child_no_thread_of_the_parent_stands_in_a_slow_path() {
        let heap = Box::new(Heap::new(Fake::default()));
        heap.free(heap.allocate(1));
        std::thread::scope(|scope| {
            scope.spawn(|| core::mem::forget(heap.enter_slow_path()));
        });
        let standing =
            || heap.slow_paths.all_places().filter(|place| place.load(Ordering::Relaxed) != 0).count();
        assert_eq!(standing(), 1);
        // SAFETY: the other thread has ended.
        unsafe { heap.repair_for_test() };
        assert_eq!(standing(), 0);
    }
}
