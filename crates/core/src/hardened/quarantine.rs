//! Freed blocks wait here before they may be handed out again, and come back in no order.
//!
//! For each class two banks of places, filled in turns. A block that enters takes the place of the one that entered two
//! rounds before, and each round goes through its bank in another order, which nobody can know. So a block waits for as
//! many frees as a bank is long, and up to three times as many.
//!
//! Each virtual CPU has a shard of its own, in which blocks enter by a restartable sequence. An interrupted one may have
//! counted a turn without its exchange: that place is left out of one round. A thread that empties such a shard closes
//! it and fences first, as the caches do. Threads without sequences, and those that find their shard closed, share
//! other shards, in which a block enters and leaves by one exchange of one word. So a signal handler or a fork finds
//! nothing half done.

use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::cache::{Front, NOT_EXCHANGED, Turn};
use crate::class::{CLASS_COUNT, SizeClass, TABLE_LEN};
use crate::os::{LENDER, Os};

/// Shards of virtual CPUs. A machine with more has only the others.
const OWN_SHARDS: usize = 512;
/// Shards of threads without sequences.
const SHARDS: usize = 64;
/// In the address of a shard that somebody is emptying.
const CLOSED: usize = 1;
const WORD: usize = size_of::<usize>();
const MAP_STEP: usize = 64 << 10;

/// The places of a bank, as a power of two.
const fn places_shift(block_bytes: usize) -> u32 {
    // Waiting blocks are cold when they are looked at again: all classes together should fit a second-level cache.
    const BYTES: usize = 8 << 10;
    if block_bytes > super::MOST_SMALL {
        return 0;
    }
    let places = (BYTES / block_bytes).next_power_of_two();
    if places < 4 {
        2
    } else if places > 256 {
        8
    } else {
        places.trailing_zeros()
    }
}

/// A shard's part for a class: its turn, then its two banks. The word of the turn says in its lowest bits which place
/// it is about, so that the next thread has not to wait for the arithmetic.
#[derive(Clone, Copy)]
struct Banks {
    /// The word of the turn.
    start: u32,
    shift: u32,
}

/// For each class, and behind the last the length of a shard. Its first word is a secret.
const BANKS: [Banks; TABLE_LEN + 1] = {
    let mut banks = [Banks { start: 0, shift: 0 }; TABLE_LEN + 1];
    let mut at = 1;
    let mut class = 1;
    while class <= CLASS_COUNT {
        let shift = places_shift(crate::class::block_bytes_of_index(class));
        banks[class] = Banks { start: at, shift };
        at += 1 + (2 << shift);
        class += 1;
    }
    banks[TABLE_LEN].start = at;
    banks
};
static BANKS_OF_CLASS: [Banks; TABLE_LEN + 1] = BANKS;
const PLACE_BITS: u32 = 16;
const _: () =
    assert!((BANKS[TABLE_LEN].start as usize) < 1 << PLACE_BITS, "a place fits into a word of a turn");
const SHARD_BYTES: usize = crate::base::round_up(BANKS[TABLE_LEN].start as usize * WORD, MAP_STEP);

impl Banks {
    #[inline(always)]
    fn of(class: SizeClass) -> Banks {
        BANKS_OF_CLASS.get(class.index()).copied().unwrap_or(BANKS[0])
    }

    /// The word of a turn.
    #[inline(always)]
    fn word_of(self, shard: usize, turn: usize) -> usize {
        turn << PLACE_BITS | self.place(shard, turn)
    }

    /// The word of the place that a turn is about.
    #[inline(always)]
    fn place(self, shard: usize, turn: usize) -> usize {
        let Banks { start, shift } = self;
        let round = turn >> shift;
        let secret = word(shard, 0).load(Ordering::Relaxed) as u64;
        let key = mixed(secret ^ u64::from(start) << 48, round as u64);
        let place = permuted(turn & ((1 << shift) - 1), shift, key) | (round & 1) << shift;
        start as usize + 1 + place
    }
}

/// The quarantine of small blocks. Zeroed it is empty.
pub struct Quarantine {
    own: [AtomicUsize; OWN_SHARDS],
    shared: [AtomicUsize; SHARDS],
    /// The number of the process that empties the shards of virtual CPUs, and one more; 0 while none does.
    emptying: AtomicU64,
}

impl Quarantine {
    pub const fn new() -> Self {
        Quarantine {
            own: [const { AtomicUsize::new(0) }; OWN_SHARDS],
            shared: [const { AtomicUsize::new(0) }; SHARDS],
            emptying: AtomicU64::new(0),
        }
    }

    /// Takes a block in; returns the one that leaves for it, 0 where there is place.
    #[inline]
    pub fn exchange<O: Os>(&self, os: &O, front: &Front, class: SizeClass, block: usize) -> usize {
        // Another thread of the virtual CPU may have come between; the second time it hardly ever has.
        for _ in 0..2 {
            let Some(place) = front.current().and_then(|number| self.own.get(number)) else { break };
            let shard = place.load(Ordering::Acquire);
            if shard == 0 {
                new_shard(os, place);
                continue;
            }
            if shard & CLOSED != 0 || front.cpus() > OWN_SHARDS {
                break;
            }
            let banks = Banks::of(class);
            let found = word(shard, banks.start as usize).load(Ordering::Relaxed);
            // A zeroed shard is before its first turn.
            let now = if found == 0 { banks.word_of(shard, 0) } else { found };
            let old = self.attempt(front, shard, class, (found, now), block);
            if old != NOT_EXCHANGED {
                return old;
            }
        }
        self.exchange_shared(os, class, block)
    }

    /// `exchange` in a shard of this virtual CPU that is in use; `NOT_EXCHANGED` where that does not do.
    #[inline(always)]
    pub fn exchange_own(&self, front: &Front, class: SizeClass, block: usize) -> usize {
        let place = front.current().and_then(|number| self.own.get(number));
        let shard = place.map_or(0, |place| place.load(Ordering::Acquire));
        if shard == 0 || shard & CLOSED != 0 || front.cpus() > OWN_SHARDS {
            return NOT_EXCHANGED;
        }
        match word(shard, Banks::of(class).start as usize).load(Ordering::Relaxed) {
            0 => NOT_EXCHANGED,
            found => self.attempt(front, shard, class, (found, found), block),
        }
    }

    /// Exchanges at the turn `now`, where the word of the turn is still as it was `found`.
    #[inline(always)]
    fn attempt(
        &self,
        front: &Front,
        shard: usize,
        class: SizeClass,
        (found, now): (usize, usize),
        block: usize,
    ) -> usize {
        let banks = Banks::of(class);
        let next = banks.word_of(shard, (now >> PLACE_BITS) + 1);
        let at = shard + (now & ((1 << PLACE_BITS) - 1)) * WORD;
        let table = self.own.as_ptr().expose_provenance();
        let turn = Turn { at: banks.start as usize, now: found, next };
        // SAFETY: there are as many entries; a shard that is not closed is changed by its virtual CPU alone.
        unsafe { front.exchange(table, shard, turn, at, block) }
    }

    #[cold]
    #[inline(never)]
    fn exchange_shared<O: Os>(&self, os: &O, class: SizeClass, block: usize) -> usize {
        let place = self.shared.get((O::thread_id() >> 12) % SHARDS);
        let shard = place.and_then(|place| match place.load(Ordering::Acquire) {
            0 => new_shard(os, place),
            known => Some(known),
        });
        let Some(shard) = shard else { return block };
        let banks = Banks::of(class);
        let before = word(shard, banks.start as usize).fetch_add(1 << PLACE_BITS, Ordering::Relaxed);
        word(shard, banks.place(shard, before >> PLACE_BITS)).swap(block, Ordering::AcqRel)
    }

    /// Takes everything out, but for the blocks that the system withholds when it refuses to stop the sequences.
    pub fn empty<O: Os>(&self, os: &O, mut take: impl FnMut(usize)) {
        for place in &self.shared {
            take_all(place.load(Ordering::Acquire), |place| place.swap(0, Ordering::AcqRel), &mut take);
        }
        self.empty_own(os, &mut take);
    }

    fn empty_own<O: Os>(&self, os: &O, take: &mut impl FnMut(usize)) {
        // A child in its parent's memory has the parent's turn.
        let number = match os.lender() & LENDER {
            0 => os.process_number(),
            lender => lender.into(),
        } + 1;
        let before = self.emptying.load(Ordering::Relaxed);
        // A child process has the word of a parent that was at it: shards that the parent closed are opened again here.
        if before == number
            || self.emptying.compare_exchange(before, number, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        let made = || self.own.iter().filter(|place| place.load(Ordering::Acquire) != 0);
        if made().next().is_some() {
            for place in made() {
                place.fetch_or(CLOSED, Ordering::AcqRel);
            }
            // After the fence no sequence that saw one of these shards is under way, so they are ours alone.
            let stopped = os.fence_sequences();
            for place in made() {
                let shard = place.load(Ordering::Relaxed) & !CLOSED;
                // A shard that was made meanwhile is not closed.
                if stopped && place.load(Ordering::Relaxed) & CLOSED != 0 {
                    take_all(shard, |place| place.swap(0, Ordering::Relaxed), take);
                }
                place.store(shard, Ordering::Release);
            }
        }
        self.emptying.store(0, Ordering::Release);
    }
}

#[cold]
fn new_shard<O: Os>(os: &O, place: &AtomicUsize) -> Option<usize> {
    let (fresh, _) = os.reserve_with_head(SHARD_BYTES, SHARD_BYTES)?;
    // Before the shard is seen.
    word(fresh, 0).store(os.random() as usize, Ordering::Relaxed);
    match place.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(other) => {
            os.unmap(fresh, SHARD_BYTES);
            Some(other)
        }
    }
}

/// Takes all blocks out of a shard, if it is one.
fn take_all(shard: usize, out: impl Fn(&AtomicUsize) -> usize, take: &mut impl FnMut(usize)) {
    if shard == 0 {
        return;
    }
    for class in SizeClass::all() {
        let Banks { start, shift } = Banks::of(class);
        for place in 0..2 << shift {
            let place = word(shard, start as usize + 1 + place);
            // A look first: most places are empty, and a write would give their pages memory.
            if place.load(Ordering::Relaxed) != 0 {
                match out(place) {
                    0 => {}
                    block => take(block),
                }
            }
        }
    }
}

/// A key for a round: all bits of a product of 128, half of which is a secret. One multiplication, since every free makes one.
#[inline(always)]
fn mixed(secret: u64, round: u64) -> u64 {
    let product = u128::from(secret) * u128::from(round.wrapping_add(0x9E37_79B9_7F4A_7C15));
    product as u64 ^ (product >> 64) as u64
}

/// Each number below `1 << shift` exactly once, in an order that the key decides: every step can be undone.
#[inline(always)]
fn permuted(index: usize, shift: u32, key: u64) -> usize {
    let mask = (1u64 << shift) - 1;
    let first = (index as u64 ^ key).wrapping_mul(key >> 16 | 1) & mask;
    let second = first ^ first >> (shift / 2).max(1);
    ((second ^ key >> 32).wrapping_mul(key >> 48 | 1) & mask) as usize
}

fn word(shard: usize, index: usize) -> &'static AtomicUsize {
    // SAFETY: the index lies in the shard's mapping, which lives as long as the heap; every word is valid.
    unsafe { &*core::ptr::with_exposed_provenance(shard + index * WORD) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::chance::next_random;
    use crate::os::fake::Fake;

    #[test]
    fn a_block_waits_for_as_many_frees_as_a_bank_is_long_and_leaves_once() {
        let (os, front, quarantine) = (Fake::default(), Front::new(), Quarantine::new());
        let class = SizeClass::for_small(64);
        let bank = 1 << places_shift(64);
        let mut left = Vec::new();
        for block in 1..=4000 {
            match quarantine.exchange(&os, &front, class, block * 64) {
                0 => {}
                older => {
                    assert!(block - older / 64 >= bank, "{} left after {block}", older / 64);
                    left.push(older / 64);
                }
            }
        }
        assert!(!left.is_sorted(), "they leave in no order");
        quarantine.empty(&os, |block| left.push(block / 64));
        left.sort();
        assert!(left.iter().copied().eq(1..=4000));
    }

    #[test]
    fn each_round_goes_through_its_bank_once_in_an_order_of_its_own() {
        for shift in [0, 2, 3, 5, 8] {
            let order =
                |key| (0..1 << shift).map(move |index| permuted(index, shift, key)).collect::<Vec<_>>();
            for mut key in 0..200 {
                let mut places = order(next_random(&mut key));
                places.sort();
                assert!(places.into_iter().eq(0..1 << shift), "{shift}");
            }
            assert!(shift < 3 || order(next_random(&mut 1)) != order(next_random(&mut 2)));
        }
    }
}
