//! Where freed blocks wait before they may be handed out again, and from where they come back in no order.
//!
//! For each class two banks of places, filled in turns. A block that enters takes the place of the one that entered two
//! rounds before, and each round goes through its bank in another order, which nobody can know. So a block waits for as
//! many frees as a bank is long, and up to three times as many. Shared by the threads of a virtual CPU; a block enters
//! and leaves by one exchange of one word, so a signal handler or a fork finds nothing half done.

use crate::base::chance::next_random;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::class::{CLASS_COUNT, SizeClass, TABLE_LEN};
use crate::os::Os;

const SHARDS: usize = 64;
const WORD: usize = size_of::<usize>();
const MAP_STEP: usize = 64 << 10;

/// The places of a bank, as a power of two.
const fn places_shift(block_bytes: usize) -> u32 {
    // What waits is cold when it is looked at again: all classes together should fit a second-level cache.
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

const SHIFTS: [u8; TABLE_LEN] = {
    let mut shifts = [0; TABLE_LEN];
    let mut class = 1;
    while class <= CLASS_COUNT {
        shifts[class] = places_shift(crate::class::block_bytes_of_index(class)) as u8;
        class += 1;
    }
    shifts
};

/// Where the words of a class begin, in words: its turn, its two banks.
const STARTS: [usize; TABLE_LEN + 1] = {
    let mut starts = [0; TABLE_LEN + 1];
    let mut at = 1;
    let mut class = 0;
    while class < TABLE_LEN {
        starts[class] = at;
        if class >= 1 && class <= CLASS_COUNT {
            at += 1 + (2 << SHIFTS[class]);
        }
        class += 1;
    }
    starts[TABLE_LEN] = at;
    starts
};
const SHARD_BYTES: usize = crate::base::round_up(STARTS[TABLE_LEN] * WORD, MAP_STEP);

/// The quarantine of small blocks. Zeroed it is empty.
pub struct Quarantine {
    shards: [AtomicUsize; SHARDS],
    secrets: [AtomicU64; SHARDS],
}

impl Quarantine {
    pub const fn new() -> Self {
        Quarantine {
            shards: [const { AtomicUsize::new(0) }; SHARDS],
            secrets: [const { AtomicU64::new(0) }; SHARDS],
        }
    }

    /// Takes a block in; returns the one that leaves for it, 0 where there is place.
    pub fn exchange<O: Os>(&self, os: &O, turn: usize, class: SizeClass, block: usize) -> usize {
        let number = turn % SHARDS;
        let Some(shard) = self.shard(os, number) else { return block };
        let shift = SHIFTS.get(class.index()).copied().unwrap_or(0) as u32;
        let start = STARTS.get(class.index()).copied().unwrap_or(0);
        let turn = word(shard, start).fetch_add(1, Ordering::Relaxed);
        let round = turn >> shift;
        let secret = self.secrets.get(number).map_or(0, |secret| secret.load(Ordering::Relaxed));
        let key = next_random(&mut (secret ^ (start as u64) << 48 ^ round as u64));
        let place = permuted(turn & ((1 << shift) - 1), shift, key) | (round & 1) << shift;
        word(shard, start + 1 + place).swap(block, Ordering::AcqRel)
    }

    fn shard<O: Os>(&self, os: &O, number: usize) -> Option<usize> {
        match self.shards.get(number)?.load(Ordering::Acquire) {
            0 => self.new_shard(os, number),
            known => Some(known),
        }
    }

    #[cold]
    fn new_shard<O: Os>(&self, os: &O, number: usize) -> Option<usize> {
        let (place, secret) = (self.shards.get(number)?, self.secrets.get(number)?);
        let (fresh, _) = os.reserve_with_head(SHARD_BYTES, SHARD_BYTES)?;
        // Before the shard is seen. Another thread's number is as good.
        secret.store(os.random(), Ordering::Relaxed);
        match place.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh),
            Err(other) => {
                os.unmap(fresh, SHARD_BYTES);
                Some(other)
            }
        }
    }

    /// Takes everything out.
    pub fn empty(&self, mut take: impl FnMut(usize)) {
        for shard in self.shards.iter().map(|shard| shard.load(Ordering::Acquire)).filter(|shard| *shard != 0)
        {
            for class in SizeClass::all() {
                let shift = SHIFTS.get(class.index()).copied().unwrap_or(0);
                let start = STARTS.get(class.index()).copied().unwrap_or(0);
                for place in 0..2 << shift {
                    let place = word(shard, start + 1 + place);
                    // A look first: most places are empty, and a write would give their pages memory.
                    if place.load(Ordering::Relaxed) != 0 {
                        let block = place.swap(0, Ordering::AcqRel);
                        if block != 0 {
                            take(block);
                        }
                    }
                }
            }
        }
    }
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
    use crate::os::fake::Fake;

    #[test]
    fn a_block_waits_for_as_many_frees_as_a_bank_is_long_and_leaves_once() {
        let (os, quarantine) = (Fake::default(), Quarantine::new());
        let class = SizeClass::for_small(64);
        let bank = 1 << places_shift(64);
        let mut left = Vec::new();
        for block in 1..=4000 {
            match quarantine.exchange(&os, 3, class, block * 64) {
                0 => {}
                older => {
                    assert!(block - older / 64 >= bank, "{} left after {block}", older / 64);
                    left.push(older / 64);
                }
            }
        }
        assert!(!left.is_sorted(), "they leave in no order");
        quarantine.empty(|block| left.push(block / 64));
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
