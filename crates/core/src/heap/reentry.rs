//! Which threads are inside a slow path: so that a signal handler that interrupted one of its own thread can tell, and does
//! not wait for the locks that its thread holds.
//!
//! A thread writes its number into a place of its own choice before it goes in, and takes it out when it leaves. What its
//! handlers free meanwhile waits here too. `slow_path` goes through here; a handler is served by `emergency`.

use super::Heap;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::os::Os;

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

/// How long a thread waits that finds no place, in nanoseconds.
const FULL_WAIT: u64 = 50_000;

/// Where a thread's places begin in a table of 2^bits (Fibonacci hashing: Knuth, TAOCP 3, 6.4).
fn first_place(thread: usize, bits: u32) -> usize {
    (thread >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - bits)
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
        if self.place_of(thread).is_some() {
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

    /// Where a thread stands that is inside, and what counts it there.
    #[inline]
    fn place_of(&self, thread: usize) -> Option<(&AtomicUsize, Option<&AtomicUsize>)> {
        let own = |place: &&AtomicUsize| place.load(Ordering::Relaxed) == thread;
        if let Some(place) = self.places(thread).find(own) {
            return Some((place, None));
        }
        let crowded = &self.crowded.0;
        if crowded.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.places_in_crowd(thread).find(own).map(|place| (place, Some(crowded)))
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
    pub fn defer(&self, block: usize) -> bool {
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
        if let Some((place, crowded)) = self.place_of(O::thread_id()) {
            drop(Entry { place, crowded });
        }
    }

    /// In a child process the threads of others are gone. They stay counted: this thread may be about to enter the crowd.
    pub fn forget_others<O: Os>(&self) {
        let others = self.all_places().filter(|place| place.load(Ordering::Relaxed) != O::thread_id());
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
}
