//! The account of a heap: the bytes of spans that it and those below it have, which never pass its limit.

use crate::base::sync::{AtomicUsize, Ordering, update};

pub(super) struct Account<'a> {
    pub limit: &'a AtomicUsize,
    pub bytes: &'a AtomicUsize,
    pub peak: &'a AtomicUsize,
}

impl Account<'_> {
    /// Counts so many bytes more, or none where the limit is in the way. One that was set a moment ago may not be seen yet.
    fn charge(&self, more: usize) -> bool {
        let fits =
            |now: usize| now.checked_add(more).filter(|sum| *sum <= self.limit.load(Ordering::Relaxed));
        let before = update(self.bytes, Ordering::Relaxed, Ordering::Relaxed, fits);
        before.is_ok_and(|before| {
            self.peak.fetch_max(before + more, Ordering::Relaxed);
            true
        })
    }

    pub fn discharge(&self, bytes: usize) {
        // A child of a signal handler counts anew, without what the interrupted call has counted.
        let fewer = |now: usize| Some(now.saturating_sub(bytes));
        _ = update(self.bytes, Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Counts bytes in all of these accounts, or in none where one of them would pass its limit: which one. The accounts are those of
/// a heap and all above it, each time that they are asked for.
pub(super) fn charge_all<'a, I>(accounts: impl Fn() -> I, more: usize) -> Result<(), u32>
where
    I: Iterator<Item = (u32, Account<'a>)>,
{
    for (at, account) in accounts() {
        if !account.charge(more) {
            accounts().take_while(|(below, _)| *below != at).for_each(|(_, account)| account.discharge(more));
            return Err(at);
        }
    }
    Ok(())
}

#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[derive(Clone, Copy)]
    enum At {
        Inner,
        Outer,
    }

    /// A heap and the one above it, as limit, bytes and peak of each.
    struct Heaps([[AtomicUsize; 3]; 2]);

    impl Heaps {
        fn new(limits: [usize; 2]) -> Arc<Heaps> {
            Arc::new(Heaps(limits.map(|limit| [limit, 0, 0].map(AtomicUsize::new))))
        }

        fn account(&self, number: usize) -> Account<'_> {
            let [limit, bytes, peak] = &self.0[number];
            Account { limit, bytes, peak }
        }

        fn charge(&self, at: At, bytes: usize) -> Result<(), u32> {
            charge_all(|| (at as usize..2).map(|number| (number as u32, self.account(number))), bytes)
        }

        fn discharge(&self, at: At, bytes: usize) {
            (at as usize..2).for_each(|number| self.account(number).discharge(bytes));
        }

        fn read(&self, number: usize) -> (usize, usize) {
            let account = self.account(number);
            (account.bytes.load(Ordering::Relaxed), account.peak.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn loom_no_limit_of_a_heap_or_of_one_above_it_is_passed_and_nothing_is_lost() {
        loom::model(|| {
            let heaps = Heaps::new([10, 12]);
            let other = heaps.clone();
            let thread = loom::thread::spawn(move || other.charge(At::Inner, 6));
            let mine = heaps.charge(At::Outer, 7);
            let theirs = thread.join().unwrap();
            assert!(mine.is_err() || theirs.is_err(), "13 of 12 bytes");
            assert!(theirs.is_ok() || theirs == Err(1), "the outer limit is in the way");
            let of = |charged: Result<(), u32>, bytes| if charged.is_ok() { bytes } else { 0 };
            assert_eq!(heaps.read(0).0, of(theirs, 6));
            assert_eq!(heaps.read(1).0, of(theirs, 6) + of(mine, 7));
            assert!(heaps.read(0).1 <= 10 && heaps.read(1).1 <= 12);
        });
    }

    #[test]
    fn loom_bytes_that_end_meanwhile_make_room_and_the_sum_is_right() {
        loom::model(|| {
            let heaps = Heaps::new([usize::MAX, 10]);
            heaps.charge(At::Inner, 6).unwrap();
            let other = heaps.clone();
            // A heap below leaves the account of the one above it.
            let thread = loom::thread::spawn(move || other.discharge(At::Inner, 6));
            let mine = heaps.charge(At::Outer, 8);
            thread.join().unwrap();
            assert_eq!(heaps.read(0).0, 0);
            assert_eq!(heaps.read(1).0, if mine.is_ok() { 8 } else { 0 });
            assert!(heaps.read(1).1 <= 10);
        });
    }

    #[test]
    fn loom_a_limit_that_is_lowered_meanwhile_holds_for_requests_that_come_after_it() {
        loom::model(|| {
            let heaps = Heaps::new([usize::MAX, 10]);
            let other = heaps.clone();
            let thread = loom::thread::spawn(move || other.charge(At::Inner, 6));
            heaps.account(1).limit.store(4, Ordering::Relaxed);
            assert_eq!(heaps.charge(At::Outer, 5), Err(1));
            let theirs = thread.join().unwrap();
            assert_eq!(heaps.read(1).0, if theirs.is_ok() { 6 } else { 0 });
            assert_eq!(heaps.read(0).0, heaps.read(1).0, "none is counted in one heap alone");
        });
    }
}
