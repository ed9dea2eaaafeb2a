//! Sees in debug builds that each thread takes locks in their order, also where no other thread is there to make a
//! deadlock of it. (After jemalloc's witness.)
//!
//! The locks that a thread holds stand in a table, under the thread's mark. The core has no storage of threads of its
//! own, and this is of use also in a library that is built for debugging, where signal handlers and forks are real. The
//! table is the core's only variable; release builds have none.

use crate::base::locks::Rank;

/// Before the thread with this mark waits for a lock.
#[inline(always)]
pub fn look(mark: impl FnOnce() -> usize, rank: Rank) {
    #[cfg(all(debug_assertions, not(loom)))]
    table::look(mark(), rank);
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = (mark, rank);
}

/// It has the lock.
#[inline(always)]
pub fn taken(mark: impl FnOnce() -> usize, rank: Rank) {
    #[cfg(all(debug_assertions, not(loom)))]
    table::note(mark(), rank, 1);
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = (mark, rank);
}

/// The holder whose mark this is leaves a lock, or has it no more because it is taken over; 0: nobody knows him.
#[inline(always)]
pub fn left(mark: impl FnOnce() -> usize, rank: Rank) {
    #[cfg(all(debug_assertions, not(loom)))]
    table::note(mark(), rank, -1);
    #[cfg(not(all(debug_assertions, not(loom))))]
    let _ = (mark, rank);
}

/// Whether the thread with this mark holds a lock of this rank, as far as that is seen.
#[cfg(any(test, feature = "fake-os"))]
pub fn holds(mark: impl FnOnce() -> usize, rank: Rank) -> bool {
    #[cfg(all(debug_assertions, not(loom)))]
    return table::holds(mark(), rank);
    #[cfg(not(all(debug_assertions, not(loom))))]
    {
        let _ = (mark, rank);
        false
    }
}

#[cfg(all(debug_assertions, not(loom)))]
mod table {
    use super::Rank;
    use core::sync::atomic::{AtomicI16, AtomicUsize, Ordering};

    const PLACES_BITS: u32 = 12;
    const PLACES: usize = 1 << PLACES_BITS;
    /// A thread is not looked at if so many places are others'.
    const LOOKS: usize = 32;

    struct Held {
        mark: AtomicUsize,
        /// By rank; each is written by its thread, and by a child that takes its locks over.
        times: [AtomicI16; Rank::ALL.len()],
    }

    static HELD: [Held; PLACES] =
        [const { Held { mark: AtomicUsize::new(0), times: [const { AtomicI16::new(0) }; Rank::ALL.len()] } };
            PLACES];

    fn held_by(mark: usize) -> Option<&'static Held> {
        // Fibonacci hashing, as in `Cache::slot`.
        let first = (mark >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - PLACES_BITS);
        HELD.iter().cycle().skip(first).take(LOOKS).find(|held| {
            let before = held.mark.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
            before.is_ok() || before == Err(mark)
        })
    }

    pub fn note(mark: usize, rank: Rank, change: i16) {
        if mark != 0
            && let Some(held) = held_by(mark)
            && let Some(times) = held.times.get(rank as usize)
        {
            // Work that was interrupted between its two stores of a lock leaves what a child took over meanwhile.
            let now = times.load(Ordering::Relaxed) + change;
            times.store(now.max(0), Ordering::Relaxed);
        }
    }

    pub fn look(mark: usize, rank: Rank) {
        if let Some(last) = last_held(mark).filter(|last| *last >= rank) {
            stop(rank, last);
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn holds(mark: usize, rank: Rank) -> bool {
        let times = held_by(mark).and_then(|held| held.times.get(rank as usize));
        times.is_some_and(|times| times.load(Ordering::Relaxed) > 0)
    }

    fn last_held(mark: usize) -> Option<Rank> {
        let mut ranks = Rank::ALL.into_iter().zip(&held_by(mark)?.times);
        // A slab is tried, not waited for, and outside slow paths too: a signal handler that interrupts that may take any lock.
        let is_held =
            |(rank, times): &(Rank, &AtomicI16)| *rank != Rank::Slab && times.load(Ordering::Relaxed) > 0;
        ranks.rfind(is_held).map(|(rank, _)| rank)
    }

    /// Not a panic that unwinds: others may wait for what this thread was to do.
    extern "C" fn stop(wanted: Rank, last: Rank) {
        let (wanted, last) = (wanted.name(), last.name());
        panic!(
            "lock order: `{wanted}` is wanted by a thread that holds `{last}`; base/locks.rs has the order"
        );
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use crate::base::locks::{Freezer, Ranked, Slab, Starting};
    use crate::os::{Linux, Mutex};

    fn mutex<T: Ranked>(value: T) -> &'static Mutex<T, Linux> {
        Box::leak(Box::new(Mutex::new(value)))
    }

    fn in_order() {
        let (first, second) = (mutex(Starting), mutex(Freezer));
        drop((first.lock(), second.lock()));
        drop((first.lock(), second.lock()));
        // A thread that tries does not wait, so no other thread waits for it.
        let held = second.lock();
        assert!(first.try_lock().is_some() && mutex(Freezer).try_lock().is_some());
        drop(held);
        drop(first.lock());
        // A signal handler may want any lock while the work that it interrupted has a slab.
        let held = mutex(Slab);
        let held = held.try_lock().expect("nobody has it");
        drop(first.lock());
        drop(held);
        // libc gives the stack of a thread that is gone, and with it its mark, to one of these.
        std::thread::spawn(|| core::mem::forget(second.lock())).join().expect("it ends with a lock in hand");
        // SAFETY: its thread is gone.
        unsafe { second.take_over(true) };
        let threads = [(); 8].map(|()| std::thread::spawn(|| drop((first.lock(), second.lock()))));
        threads.into_iter().for_each(|thread| thread.join().expect("nothing was in its hand"));
    }

    fn out_of_order() {
        drop((mutex(Freezer).lock(), mutex(Starting).lock()));
    }

    fn two_of_one_rank() {
        drop((mutex(Freezer).lock(), mutex(Freezer).lock()));
    }

    /// The message of a process that does such a thing.
    fn said(case: usize) -> String {
        let this = "os::witness::tests::a_process_ends_where_locks_are_taken_out_of_order_with_both_names";
        let mut process = std::process::Command::new(std::env::current_exe().expect("this program"));
        process.args(["--exact", this, "--nocapture"]).env(CASE, case.to_string());
        let output = process.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), case == 0, "{said}");
        said
    }

    const CASE: &str = "VCMALLOC_TEST_LOCKS";

    #[test]
    fn a_process_ends_where_locks_are_taken_out_of_order_with_both_names() {
        if let Ok(case) = std::env::var(CASE) {
            return [in_order, out_of_order, two_of_one_rank][case.parse::<usize>().expect("a number")]();
        }
        assert!(!said(0).contains("lock order"));
        assert!(said(1).contains("`starting` is wanted by a thread that holds `freezer`"));
        assert!(said(2).contains("`freezer` is wanted by a thread that holds `freezer`"));
    }
}
