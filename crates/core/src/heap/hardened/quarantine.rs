//! Where freed blocks wait before they may be handed out again, and from where they come back in no order.
//!
//! For each class first a ring, in which a block waits for as many frees as the ring is long, then an array
//! from which each newcomer drives out another at random. Shared by the threads of a virtual CPU; every step
//! is one exchange of one word, so a signal handler or a fork finds nothing half done.

use crate::base::chance::next_random;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::class::{CLASS_COUNT, SizeClass, TABLE_LEN};
use crate::os::Os;

const SHARDS: usize = 64;
const WORD: usize = size_of::<usize>();
const MAP_STEP: usize = 64 << 10;

/// Places of the ring of a class, and of its array.
const fn places(block_bytes: usize) -> usize {
    // What waits is cold when it is looked at again: all classes together should fit a second-level cache.
    const BYTES: usize = 8 << 10;
    let places = BYTES / block_bytes;
    if places < 4 {
        4
    } else if places > 256 {
        256
    } else {
        places
    }
}

/// Where the words of a class begin, in words: its turn, its ring, its array.
const STARTS: [usize; TABLE_LEN + 1] = {
    let mut starts = [0; TABLE_LEN + 1];
    let mut at = 1;
    let mut class = 0;
    while class < TABLE_LEN {
        starts[class] = at;
        if class >= 1 && class <= CLASS_COUNT {
            at += 1 + 2 * places(crate::class::block_bytes_of_index(class));
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
    random: [AtomicU64; SHARDS],
}

impl Quarantine {
    pub const fn new() -> Self {
        Quarantine {
            shards: [const { AtomicUsize::new(0) }; SHARDS],
            random: [const { AtomicU64::new(0) }; SHARDS],
        }
    }

    /// Takes a block in; returns the one that leaves for it, 0 where there is place.
    pub fn exchange<O: Os>(&self, os: &O, turn: usize, class: SizeClass, block: usize) -> usize {
        let number = turn % SHARDS;
        let Some(shard) = self.shard(os, number) else { return block };
        let places = places(class.block_bytes().max(1));
        let start = STARTS.get(class.index()).copied().unwrap_or(0);
        // Threads that share a turn by accident put two blocks in one place: one of them leaves early.
        let ring_turn = word(shard, start).fetch_add(1, Ordering::Relaxed) % places;
        let older = word(shard, start + 1 + ring_turn).swap(block, Ordering::AcqRel);
        if older == 0 {
            return 0;
        }
        let chosen = self.next_random(os, number) as usize % places;
        word(shard, start + 1 + places + chosen).swap(older, Ordering::AcqRel)
    }

    fn next_random<O: Os>(&self, os: &O, number: usize) -> u64 {
        let Some(state) = self.random.get(number) else { return 0 };
        let mut seed = match state.load(Ordering::Relaxed) {
            0 => os.random(),
            seed => seed,
        };
        let number = next_random(&mut seed);
        state.store(seed, Ordering::Relaxed);
        number
    }

    fn shard<O: Os>(&self, os: &O, number: usize) -> Option<usize> {
        let place = self.shards.get(number)?;
        let known = place.load(Ordering::Acquire);
        if known != 0 {
            return Some(known);
        }
        let (fresh, _) = os.reserve_with_head(SHARD_BYTES, SHARD_BYTES)?;
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
                let places = places(class.block_bytes().max(1));
                let start = STARTS.get(class.index()).copied().unwrap_or(0);
                for place in 0..2 * places {
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

fn word(shard: usize, index: usize) -> &'static AtomicUsize {
    // SAFETY: the index lies in the shard's mapping, which lives as long as the heap; every word is valid.
    unsafe { &*core::ptr::with_exposed_provenance(shard + index * WORD) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::Fake;

    #[test]
    fn a_block_waits_for_as_many_frees_as_the_ring_is_long_and_leaves_once() {
        let (os, quarantine) = (Fake::default(), Quarantine::new());
        let class = SizeClass::for_small(64);
        let ring = places(64);
        let mut left = Vec::new();
        for block in 1..=4000 {
            match quarantine.exchange(&os, 3, class, block * 64) {
                0 => {}
                older => {
                    assert!(block - older / 64 >= ring, "{} left after {block}", older / 64);
                    left.push(older / 64);
                }
            }
        }
        assert!(!left.is_sorted(), "they leave in no order");
        quarantine.empty(|block| left.push(block / 64));
        left.sort();
        assert!(left.iter().copied().eq(1..=4000));
    }
}
