//! Threads in slow paths that use a cache: it does not go to another heap before they have come back.

use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, in_one_order};

/// How many use the cache of one slot.
pub(super) struct Users(AtomicU32);

impl Users {
    pub fn new() -> Users {
        Users(AtomicU32::new(0))
    }

    /// Counts this thread, which found the slot at `place`; false, and it is not counted, where the slot is not there any more.
    pub fn enter(&self, place: &AtomicUsize, slot: usize) -> bool {
        // Both in the one order of all: either `take_away` and `any` see this thread, or it sees that the slot was taken away.
        self.0.fetch_add(1, Ordering::SeqCst);
        in_one_order();
        let is_there = place.load(Ordering::SeqCst) == slot;
        if !is_there {
            self.leave();
        }
        is_there
    }

    pub fn leave(&self) {
        // A child that a signal handler made meanwhile counts none.
        let fewer = |users: u32| Some(users.saturating_sub(1));
        // Release pairs with the order in `any`: what this thread did with the cache is done.
        _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);
    }

    /// Whether a thread uses the cache. After `take_away` no other one comes.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// In a child, where none of them is.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes the slot away that is found at `place`; 0: there is none.
    pub fn take_away(place: &AtomicUsize) -> usize {
        let slot = place.swap(0, Ordering::SeqCst);
        in_one_order();
        slot
    }
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::base::sync::UnsafeCell;
    use loom::sync::Arc;

    const SLOT: usize = 64;

    struct Shared {
        place: AtomicUsize,
        users: Users,
        /// The contents of the cache.
        blocks: UnsafeCell<u32>,
    }

    impl Shared {
        fn write(&self) {
            // SAFETY: users have the cache one after the other; the thread that takes it away comes when there is none. Loom looks.
            self.blocks.with_mut(|blocks| unsafe { *blocks += 1 });
        }

        fn take_away(&self) -> bool {
            let is_taken = Users::take_away(&self.place) == SLOT;
            if is_taken {
                while self.users.any() {
                    loom::thread::yield_now();
                }
                self.write();
            }
            is_taken
        }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared { place: AtomicUsize::new(SLOT), users: Users::new(), blocks: UnsafeCell::new(0) })
    }

    #[test]
    fn loom_a_cache_is_taken_away_after_all_who_use_it_have_come_back() {
        loom::model(|| {
            let ours = shared();
            let theirs = ours.clone();
            let thread = loom::thread::spawn(move || {
                if theirs.users.enter(&theirs.place, SLOT) {
                    theirs.write();
                    theirs.users.leave();
                }
            });
            assert!(ours.take_away());
            thread.join().unwrap();
            assert!(!ours.users.any());
        });
    }

    #[test]
    fn loom_of_two_threads_that_take_a_cache_away_one_has_it() {
        loom::model(|| {
            let ours = shared();
            let theirs = ours.clone();
            let thread = loom::thread::spawn(move || theirs.take_away());
            assert_ne!(ours.take_away(), thread.join().unwrap());
        });
    }

    #[test]
    fn loom_a_thread_that_found_the_cache_late_leaves_it_to_the_next_heap_untouched() {
        loom::model(|| {
            let ours = shared();
            let theirs = ours.clone();
            let next = Arc::new(AtomicUsize::new(0));
            let their_next = next.clone();
            let thread = loom::thread::spawn(move || {
                if theirs.take_away() {
                    // The next heap has it.
                    their_next.store(SLOT, Ordering::Release);
                }
            });
            if ours.users.enter(&ours.place, SLOT) {
                assert_eq!(next.load(Ordering::Acquire), 0, "it is not another heap's meanwhile");
                ours.write();
                ours.users.leave();
            }
            thread.join().unwrap();
            assert!(!ours.users.any());
        });
    }
}
