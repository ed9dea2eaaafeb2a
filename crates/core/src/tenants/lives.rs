//! Lives of an entry: a heap after the other has it, and a name is good for one of them. Seen without a lock.

use crate::base::sync::{AtomicU32, Ordering, fence};

/// The words of an entry that say which heap has it.
pub(super) struct Life<'a> {
    pub state: &'a AtomicU32,
    pub generation: &'a AtomicU32,
}

impl Life<'_> {
    /// The state in this generation; none where another heap has the entry by now.
    pub fn state_in(&self, generation: u32) -> Option<u32> {
        // The state first, whose Acquire pairs with the Release in `begin`: the generation is that of the state, or a later one.
        let state = self.state.load(Ordering::Acquire);
        (self.generation.load(Ordering::Relaxed) == generation).then_some(state)
    }

    /// The same after other words of the entry were read: where it is the same generation they are that heap's.
    pub fn state_still_in(&self, generation: u32) -> Option<u32> {
        // Pairs with the fence in `renew`.
        fence(Ordering::Acquire);
        self.state_in(generation)
    }

    /// Gives an unused entry to another heap; its generation. Called by one thread, before it writes other words of the entry.
    pub fn renew(&self) -> u32 {
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
        // Release: a thread that reads this generation sees that spans of the heap before are another one's.
        self.generation.store(generation, Ordering::Release);
        fence(Ordering::Release);
        generation
    }

    /// Says that the heap is one, when all other words are written.
    pub fn begin(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }

    /// Whether the entry had as many heaps as there are names for: another one would have a name that was one before.
    pub fn is_spent(&self) -> bool {
        self.generation.load(Ordering::Relaxed) == u32::MAX
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::locks::{Rank, Ranked};
    use crate::base::sync::{AtomicUsize, UnsafeCell};
    use crate::os::Mutex;
    use crate::os::yields::Yield;
    use loom::sync::Arc;

    const UNUSED: u32 = 0;
    const LIVE: u32 = 1;

    /// An entry, a word that is its heap's, and whether the first heap has ended.
    struct Entry {
        state: AtomicU32,
        generation: AtomicU32,
        word: AtomicUsize,
        has_ended: AtomicU32,
    }

    impl Entry {
        fn life(&self) -> Life<'_> {
            Life { state: &self.state, generation: &self.generation }
        }

        /// Begins a heap whose word is its generation.
        fn make(&self) {
            let generation = self.life().renew();
            self.word.store(generation as usize, Ordering::Relaxed);
            self.life().begin(LIVE);
        }
    }

    /// One thread ends the first heap and makes a second one, while this one does `other`.
    fn race(other: fn(&Entry)) {
        loom::model(move || {
            let word = |value| AtomicU32::new(value);
            let entry = Arc::new(Entry {
                state: word(UNUSED),
                generation: word(0),
                word: AtomicUsize::new(0),
                has_ended: word(0),
            });
            entry.make();
            let shared = entry.clone();
            let thread = loom::thread::spawn(move || {
                shared.state.store(UNUSED, Ordering::Release);
                shared.has_ended.store(1, Ordering::Release);
                shared.make();
            });
            other(&entry);
            thread.join().unwrap();
        });
    }

    #[test]
    fn loom_a_name_is_not_found_after_its_heap_has_ended_although_the_entry_lives_again() {
        race(|entry| {
            let has_ended = entry.has_ended.load(Ordering::Acquire) != 0;
            let found = entry.life().state_in(1);
            assert!(!(has_ended && found == Some(LIVE)));
        });
    }

    /// Threads that open a span, as `Rooms` has them, and what a span of the heap holds.
    struct Opening(u32);

    impl Ranked for Opening {
        const RANK: Rank = Rank::Tenant;
    }

    /// The steps of `take_from_spans` and of `end`, with the lock and the words that they have.
    #[test]
    fn loom_a_heap_ends_when_no_thread_opens_a_span_for_it_and_none_does_afterwards() {
        const ENDING: u32 = 3;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (state, generation) = (AtomicU32::new(LIVE), AtomicU32::new(1));
            let rooms = Mutex::<Opening, Yield>::new(Opening(0));
            let ours = Arc::new((state, generation, rooms, UnsafeCell::new(0)));
            let theirs = ours.clone();
            let thread = loom::thread::spawn(move || {
                let (state, generation, rooms, spans) = &*theirs;
                let mut held = rooms.lock();
                if (Life { state, generation }).state_in(1) != Some(LIVE) {
                    return;
                }
                held.0 += 1;
                drop(held);
                // SAFETY: spans are this thread's as long as it is counted. Loom looks.
                spans.with_mut(|spans| unsafe { *spans += 1 });
                rooms.lock().0 -= 1;
            });
            let (state, _, rooms, spans) = &*ours;
            state.compare_exchange(LIVE, ENDING, Ordering::AcqRel, Ordering::Relaxed).unwrap();
            while rooms.lock().0 != 0 {
                loom::thread::yield_now();
            }
            // SAFETY: nobody opens one any more. Loom looks.
            spans.with_mut(|spans| unsafe { *spans = 0 });
            thread.join().unwrap();
        });
    }

    #[test]
    fn loom_words_of_an_entry_are_those_of_the_heap_whose_name_is_good_before_and_after() {
        race(|entry| {
            let before = entry.life().state_in(1);
            let word = entry.word.load(Ordering::Relaxed);
            if before == Some(LIVE) && entry.life().state_still_in(1) == Some(LIVE) {
                assert_eq!(word, 1);
            }
        });
    }
}
