//! Memory for the two moments when the heap itself must not be touched: a signal handler that interrupted a slow path
//! of its own thread, and a process that was stopped for misuse and now runs its crash handler.
//!
//! Blocks are cut one after the other from a few arenas; an arena begins anew when none of its blocks is in use. After a
//! stop freeing does nothing, and the crash handler comes first: other threads are served ever more slowly, from a part of the memory, and then not at all.

use super::Heap;
use crate::base::round_up;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::class::MIN_ALIGN;
use crate::os::Os;

const ARENAS: usize = 16;
const ARENA_BYTES: usize = 4 << 20;
/// Before a block stand its size and, while it is in use, its address.
const HEADER: usize = MIN_ALIGN;
const WORD: usize = size_of::<usize>();

/// What is in use of an arena. Both change together, so that the last block to be freed can begin the arena anew.
#[derive(Clone, Copy, Default)]
struct Use {
    blocks: u32,
    bytes: u32,
}

impl Use {
    fn of(word: u64) -> Use {
        Use { blocks: (word >> 32) as u32, bytes: word as u32 }
    }

    fn word(self) -> u64 {
        (self.blocks as u64) << 32 | self.bytes as u64
    }

    /// With one more block of `bytes`; none where the arena has no room for it.
    fn with(self, bytes: usize) -> Option<Use> {
        let after = self.bytes as usize + bytes;
        (after <= ARENA_BYTES).then_some(Use { blocks: self.blocks + 1, bytes: after as u32 })
    }

    fn without_one(self) -> Use {
        if self.blocks <= 1 { Use::default() } else { Use { blocks: self.blocks - 1, ..self } }
    }
}

fn word_at(address: usize) -> *mut usize {
    core::ptr::with_exposed_provenance_mut(address)
}

/// What threads other than the stopped one may take after a stop, together.
const OTHERS_BYTES: usize = ARENAS / 2 * ARENA_BYTES;
/// Their calls take a millisecond at first, and twice as long after each such part.
const OTHERS_STEP: usize = OTHERS_BYTES / 8;
const MILLISECOND: u64 = 1_000_000;

/// Arenas are made when first needed.
pub struct Emergency {
    bases: [AtomicUsize; ARENAS],
    uses: [AtomicU64; ARENAS],
    /// Bytes that other threads took after a stop.
    by_others: AtomicUsize,
    /// What parked threads wait for: nothing ever changes it.
    never: AtomicU32,
}

impl Emergency {
    pub const fn new() -> Self {
        Emergency {
            bases: [const { AtomicUsize::new(0) }; ARENAS],
            uses: [const { AtomicU64::new(0) }; ARENAS],
            by_others: AtomicUsize::new(0),
            never: AtomicU32::new(0),
        }
    }

    /// How long a thread that was not stopped itself has to wait before it is served; none where its kind had enough.
    fn wait_of_others(&self, bytes: usize) -> Option<u64> {
        let before = self.by_others.fetch_add(bytes.min(OTHERS_BYTES), Ordering::Relaxed);
        if before < OTHERS_BYTES { Some(MILLISECOND << (before / OTHERS_STEP)) } else { None }
    }

    /// A block at a multiple of `align`. Async-signal-safe; 0 where nothing is left.
    pub fn allocate<O: Os>(&self, os: &O, bytes: usize, align: usize) -> usize {
        let align = align.max(MIN_ALIGN);
        let Some(wanted) = bytes.checked_add(HEADER + align).filter(|wanted| *wanted <= ARENA_BYTES) else {
            return 0;
        };
        let wanted = round_up(wanted, MIN_ALIGN);
        for (base, in_use) in self.bases.iter().zip(&self.uses) {
            let Some(arena) = arena(os, base) else { return 0 };
            let with = |word| Use::of(word).with(wanted).map(Use::word);
            if let Ok(before) = in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, with) {
                let block = round_up(arena + Use::of(before).bytes as usize + HEADER, align);
                // SAFETY: these bytes were cut off for this block alone.
                unsafe {
                    word_at(block - HEADER).write(bytes);
                    word_at(block - WORD).write(block);
                }
                return block;
            }
        }
        0
    }

    /// Takes back what `allocate` gave; anything else, and a second free, is left alone.
    pub fn free(&self, block: usize) {
        for (base, in_use) in self.bases.iter().zip(&self.uses) {
            let offset = block.wrapping_sub(base.load(Ordering::Acquire));
            if !(HEADER..ARENA_BYTES).contains(&offset) || !block.is_multiple_of(MIN_ALIGN) {
                continue;
            }
            // SAFETY: the word lies in the arena; nobody but the block's owner uses the one before his block.
            let live = unsafe { AtomicUsize::from_ptr(word_at(block - WORD)) };
            if live.compare_exchange(block, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // An arena that begins anew is as zero as a fresh one.
                // SAFETY: the block was in use until this line and is nobody's now.
                unsafe {
                    let bytes = word_at(block - HEADER).replace(0);
                    word_at(block).cast::<u8>().write_bytes(0, bytes);
                }
                let without = |word| Some(Use::of(word).without_one().word());
                let _ = in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
            }
            return;
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_mapping(&self, mut take: impl FnMut(usize, usize)) {
        self.bases.iter().for_each(|base| take(base.load(Ordering::Relaxed), ARENA_BYTES));
    }

    /// Bytes of the block at `address`, if it is one of these.
    pub fn bytes_of(&self, address: usize) -> Option<usize> {
        let ours = |base: &AtomicUsize| {
            let base = base.load(Ordering::Acquire);
            base != 0 && address.wrapping_sub(base) < ARENA_BYTES
        };
        if !self.bases.iter().any(ours) {
            return None;
        }
        // SAFETY: blocks of an arena have their size before them.
        Some(unsafe { core::ptr::with_exposed_provenance::<usize>(address - HEADER).read() })
    }
}

/// The arena's address; made here if nobody has.
fn arena<O: Os>(os: &O, base: &AtomicUsize) -> Option<usize> {
    let known = base.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    let fresh = os.reserve(ARENA_BYTES)?;
    if !os.commit(fresh, ARENA_BYTES) {
        os.unmap(fresh, ARENA_BYTES);
        return None;
    }
    match base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(other) => {
            os.unmap(fresh, ARENA_BYTES);
            Some(other)
        }
    }
}

const SLOTS: usize = 32;
/// Slots that one thread may use.
const PROBES: usize = 4;
/// The same for threads that find those taken: where many wait for a lock inside slow paths, as while a fork holds all.
const CROWD: usize = 1024;
const CROWD_PROBES: usize = 16;
const DEFERRED: usize = 64;

/// Which threads are inside a slow path, and what their signal handlers freed meanwhile.
pub struct SlowPaths {
    threads: [Slot; SLOTS],
    /// At least as many as stand in `crowd`.
    crowded: Slot,
    crowd: [AtomicUsize; CROWD],
    deferred: [AtomicUsize; DEFERRED],
    deferred_count: AtomicUsize,
}

/// A cache line of its own: threads on different CPUs enter slow paths at the same time.
#[repr(align(64))]
struct Slot(AtomicUsize);

/// This thread is in a slow path until the value is dropped.
pub struct Entry<'a> {
    place: &'a AtomicUsize,
    crowded: Option<&'a AtomicUsize>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.place.store(0, Ordering::Relaxed);
        if let Some(crowded) = self.crowded {
            crowded.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Where a thread's places begin in a table of 2^bits (Fibonacci hashing: Knuth, TAOCP 3, 6.4).
fn first_place(thread: usize, bits: u32) -> usize {
    (thread >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - bits)
}

fn is(thread: usize) -> impl Fn(&AtomicUsize) -> bool {
    move |place| place.load(Ordering::Relaxed) == thread
}

impl SlowPaths {
    pub const fn new() -> Self {
        SlowPaths {
            threads: [const { Slot(AtomicUsize::new(0)) }; SLOTS],
            crowded: Slot(AtomicUsize::new(0)),
            crowd: [const { AtomicUsize::new(0) }; CROWD],
            deferred: [const { AtomicUsize::new(0) }; DEFERRED],
            deferred_count: AtomicUsize::new(0),
        }
    }

    fn places(&self, thread: usize) -> impl Iterator<Item = &AtomicUsize> {
        let first = first_place(thread, SLOTS.ilog2());
        (first..first + PROBES).filter_map(|place| self.threads.get(place % SLOTS)).map(|Slot(place)| place)
    }

    fn places_in_crowd(&self, thread: usize) -> impl Iterator<Item = &AtomicUsize> {
        let first = first_place(thread, CROWD.ilog2());
        (first..first + CROWD_PROBES).filter_map(|place| self.crowd.get(place % CROWD))
    }

    /// None if this thread is inside a slow path already, which only a signal handler can see. A thread that cannot be noted
    /// does not go in: its handlers would wait for the locks that it holds. `full` is called until there is a place.
    ///
    /// Only the thread itself writes its own number, so relaxed order is enough: a handler sees what its thread wrote.
    #[inline]
    pub fn enter<O: Os>(&self, mut full: impl FnMut()) -> Option<Entry<'_>> {
        let thread = O::thread_id();
        // All places first: the thread may stand behind one that has become free since.
        if self.places(thread).any(is(thread)) || self.is_in_crowd(thread) {
            return None;
        }
        loop {
            if let Some(place) = self.places(thread).find(|place| take(place, thread)) {
                return Some(Entry { place, crowded: None });
            }
            if let Some(entry) = self.enter_crowd(thread) {
                return Some(entry);
            }
            full();
        }
    }

    fn is_in_crowd(&self, thread: usize) -> bool {
        self.crowded.0.load(Ordering::Relaxed) != 0 && self.places_in_crowd(thread).any(is(thread))
    }

    #[cold]
    fn enter_crowd(&self, thread: usize) -> Option<Entry<'_>> {
        // Counted first: a handler of this thread looks into the crowd only where somebody is counted.
        let crowded = &self.crowded.0;
        crowded.fetch_add(1, Ordering::Relaxed);
        let place = self.places_in_crowd(thread).find(|place| take(place, thread));
        if place.is_none() {
            crowded.fetch_sub(1, Ordering::Relaxed);
        }
        place.map(|place| Entry { place, crowded: Some(crowded) })
    }

    /// Keeps a block that a signal handler freed; false where there is no place, and the block is lost.
    fn defer(&self, block: usize) -> bool {
        // Release pairs with the Acquire in `free_deferred`: what the handler wrote comes before what the next owner writes.
        let kept = self
            .deferred
            .iter()
            .any(|place| place.compare_exchange(0, block, Ordering::Release, Ordering::Relaxed).is_ok());
        self.deferred_count.fetch_add(usize::from(kept), Ordering::Relaxed);
        kept
    }

    fn all_places(&self) -> impl Iterator<Item = &AtomicUsize> {
        self.threads.iter().map(|Slot(place)| place).chain(&self.crowd)
    }

    /// Ends an entry that was forgotten on purpose.
    pub fn leave<O: Os>(&self) {
        let thread = O::thread_id();
        if let Some(place) = self.places(thread).find(|place| is(thread)(place)) {
            place.store(0, Ordering::Relaxed);
        } else if self.is_in_crowd(thread) {
            self.places_in_crowd(thread)
                .filter(|place| is(thread)(place))
                .for_each(|place| place.store(0, Ordering::Relaxed));
            self.crowded.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// In a child process the threads of others are gone. They stay counted: this thread may be about to enter the crowd.
    pub fn forget_others<O: Os>(&self) {
        let others = self.all_places().filter(|place| !is(O::thread_id())(place));
        others.for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// In a forked child the threads of others are gone, and this one is through with its fork.
    pub fn forget_all(&self) {
        self.all_places().for_each(|place| place.store(0, Ordering::Relaxed));
        self.crowded.0.store(0, Ordering::Relaxed);
    }
}

fn take(place: &AtomicUsize, thread: usize) -> bool {
    place.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// How long a thread waits that finds no place in the slow paths.
const FULL_WAIT: u64 = 50_000;

impl<O: Os> Heap<O> {
    /// Notes that this thread goes into a slow path; none where it is in one already.
    #[inline]
    pub(super) fn enter_slow_path(&self) -> Option<Entry<'_>> {
        let entry = self.slow_paths.enter::<O>(|| {
            // In a new process those that stand there are gone.
            self.know_process(true);
            self.os.wait_for(&self.emergency.never, 0, FULL_WAIT);
        });
        self.know_process(entry.is_some());
        entry
    }

    /// A block for a caller that must not touch the heap.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_in_emergency(&self, bytes: usize, align: usize) -> usize {
        if self.is_stopped() && self.stopped_thread.load(Ordering::Relaxed) != O::thread_id() {
            match self.emergency.wait_of_others(bytes) {
                Some(nanoseconds) => self.os.wait_for(&self.emergency.never, 0, nanoseconds),
                None => self.park(),
            }
        }
        self.emergency.allocate(&self.os, bytes, align)
    }

    /// Keeps this thread, in a process that was stopped, until the process ends.
    #[cold]
    pub(super) fn park(&self) -> ! {
        loop {
            self.os.wait_for(&self.emergency.never, 0, 1000 * MILLISECOND);
        }
    }

    /// What becomes of a block that is freed by a signal handler inside a slow path, or after the process was stopped.
    #[cold]
    #[inline(never)]
    pub(super) fn free_in_emergency(&self, address: usize) {
        if self.is_stopped() {
            return;
        }
        match self.emergency.bytes_of(address) {
            Some(_) => self.emergency.free(address),
            None => _ = self.slow_paths.defer(address),
        }
    }

    /// Frees what signal handlers had to leave.
    #[inline]
    pub(super) fn free_deferred(&self) {
        if self.slow_paths.deferred_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for place in &self.slow_paths.deferred {
            let block = place.swap(0, Ordering::Acquire);
            if block != 0 {
                self.slow_paths.deferred_count.fetch_sub(1, Ordering::Relaxed);
                self.free(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Request};

    #[test]
    fn emergency_blocks_are_apart_aligned_and_know_their_size() {
        let (os, emergency) = (Fake::default(), Emergency::new());
        assert_eq!(emergency.bytes_of(0x1000), None);
        let first = emergency.allocate(&os, 100, 16);
        let second = emergency.allocate(&os, 50, 4096);
        assert!(second >= first + 100 && second % 4096 == 0);
        assert_eq!((emergency.bytes_of(first), emergency.bytes_of(second)), (Some(100), Some(50)));
        assert_eq!(emergency.allocate(&os, ARENA_BYTES, 16), 0);
        let many = (0..40).filter(|_| emergency.allocate(&os, ARENA_BYTES / 2, 16) != 0).count();
        assert_eq!(many, ARENAS, "one in each arena, then nothing");
    }

    #[test]
    fn handlers_that_free_what_they_took_never_use_the_arenas_up() {
        let (os, emergency) = (Fake::default(), Emergency::new());
        let kept: Vec<usize> = (0..3).map(|_| emergency.allocate(&os, ARENA_BYTES / 2, 16)).collect();
        for _ in 0..1000 {
            let blocks: Vec<usize> = (0..8).map(|_| emergency.allocate(&os, 500_000, 64)).collect();
            assert!(!blocks.contains(&0));
            blocks.into_iter().for_each(|block| emergency.free(block));
        }
        assert!(kept.iter().all(|block| emergency.bytes_of(*block) == Some(ARENA_BYTES / 2)));
        emergency.free(kept[0]);
        emergency.free(kept[0]);
        emergency.free(kept[0] + 16);
        assert_eq!(Use::of(emergency.uses[1].load(Ordering::Relaxed)).blocks, 1, "freed once");
    }

    #[test]
    fn without_memory_there_is_none_in_an_emergency_either() {
        for request in [Request::Reserve, Request::Commit] {
            let (os, emergency) = (Fake::default(), Emergency::new());
            os.refuse_after(request, 0);
            assert_eq!(emergency.allocate(&os, 1, 16), 0);
        }
    }

    #[test]
    fn after_a_stop_other_threads_leave_half_of_the_memory_to_the_crash_handler() {
        let emergency = Emergency::new();
        assert_eq!(emergency.wait_of_others(1), Some(MILLISECOND));
        let waits: Vec<u64> = core::iter::from_fn(|| emergency.wait_of_others(1 << 20)).take(1000).collect();
        assert_eq!(waits.len(), OTHERS_BYTES >> 20, "so much and no more");
        assert!(waits.is_sorted() && waits.last() == Some(&(128 * MILLISECOND)), "ever more slowly");
        assert_eq!(emergency.wait_of_others(1), None);
    }

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
    fn a_thread_is_found_behind_a_slot_that_became_free() {
        let paths = SlowPaths::new();
        let thread = Fake::thread_id();
        let first = first_place(thread, SLOTS.ilog2());
        paths.threads[first % SLOTS].0.store(thread + 64, Ordering::Relaxed);
        let entry = paths.enter::<Fake>(|| ());
        paths.threads[first % SLOTS].0.store(0, Ordering::Relaxed);
        assert!(entry.is_some() && paths.enter::<Fake>(|| ()).is_none());
    }

    #[test]
    fn a_thread_is_noted_however_many_are_inside() {
        let paths = SlowPaths::new();
        let others = |place: &AtomicUsize| place.store(64, Ordering::Relaxed);
        paths.threads.iter().for_each(|Slot(place)| others(place));
        let entry = paths.enter::<Fake>(|| panic!("there is room in the crowd"));
        assert!(entry.is_some() && paths.enter::<Fake>(|| ()).is_none());
        drop(entry);
        let entry = core::mem::ManuallyDrop::new(paths.enter::<Fake>(|| ()));
        assert!(entry.is_some());
        paths.leave::<Fake>();
        assert_eq!(paths.crowded.0.load(Ordering::Relaxed), 0);

        paths.crowd.iter().for_each(others);
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
    fn a_handler_inside_a_slow_path_is_served_and_what_it_frees_is_freed_later() {
        let heap = Box::new(Heap::new(Fake::default()));
        let (small, large) = (heap.allocate(100), heap.allocate(1 << 20));
        let entry = heap.slow_paths.enter::<Fake>(|| ());
        let block = heap.allocate(5000);
        assert_eq!(heap.usable_bytes(block), 5000);
        let grown = heap.reallocate(block, 6000);
        assert_ne!(grown, 0);
        heap.free(grown);
        heap.free(large);
        heap.free(small);
        assert_eq!(heap.large.stats().blocks, 1, "left for later");
        assert_eq!(heap.stats().mapped, 0, "the picture needs locks that this thread may hold");
        drop(entry);
        heap.free(heap.allocate(3 << 20));
        assert_eq!(heap.stats().large_blocks, 0);
        heap.free(block);
    }
}
