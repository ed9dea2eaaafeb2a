//! The memory of one virtual CPU's cache: for each class a word {top, end} and an array of free blocks.
//!
//! ```text
//!  +--------+------+---------------------------+---------------------------------------+
//!  | words  | info | small arrays, 7 blocks    | big arrays, up to `most_cached` blocks |
//!  +--------+------+---------------------------+---------------------------------------+
//! ```
//!
//! `top` is the offset of the block put last, `end` that of the last place that may be used. Below each array
//! lies a word that is always zero, so an empty array shows itself as a zero block. A zeroed word means empty
//! *and* full: both fast paths then leave for the slow one, which sets the class up. A class begins in its
//! small array, all of which share two pages, and moves to its big one when it needs more: small programs
//! touch few pages.

use crate::base::round_up;
use crate::base::sync::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::ticks::Ticks;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::Os;

/// Blocks in a small array.
pub const SMALL_BLOCKS: usize = 7;

const ENTRY: usize = size_of::<usize>();
/// The offset of the word that says which tenant's heap a slab is of: that of large blocks, which such a slab is never asked for.
pub const OWNED: usize = SizeClass::LARGE.index() * ENTRY;
pub(super) const INFO_START: usize = round_up(TABLE_LEN * ENTRY, 64);
const SMALL_START: usize = round_up(INFO_START + size_of::<Info>(), 64);
const SMALL_STRIDE: usize = (SMALL_BLOCKS + 1) * ENTRY;
/// The part of a slab that is mapped from the start: words, info and small arrays.
pub const SLAB_HEAD_BYTES: usize = BIG_START;
pub(super) const BIG_START: usize = round_up(SMALL_START + TABLE_LEN * SMALL_STRIDE, 4096);

pub(crate) const BIG_BASES: [u32; TABLE_LEN + 1] = big_bases();
/// The length of a slab's mapping. Most of it is never touched.
pub const SLAB_BYTES: usize = round_up(BIG_BASES[TABLE_LEN] as usize, 64 << 10);

/// The big arrays are mapped and have no memory, as far as known.
pub const MAPPED: u32 = 1;
/// Some class had a big array since then.
pub const USED: u32 = 2;

/// The slow path's knowledge about a slab. Plain counters: threads that share the virtual CPU take turns.
pub struct Info {
    /// Room of the budget that this slab's capacities hold.
    pub granted: AtomicUsize,
    /// Times that room was refused.
    pub refusals: AtomicU32,
    /// Fast paths that found nothing, and that found no place.
    pub underflows: AtomicU64,
    pub overflows: AtomicU64,
    /// How far the big arrays are there: unmapped, MAPPED or USED.
    pub big: AtomicU32,
    /// Misses of each class, the older ones counted for less.
    pub misses: [AtomicU32; TABLE_LEN],
    /// Bytes of the heap, and the time of that look in units of `worth`.
    pub heap_bytes: AtomicUsize,
    pub heap_seen_at: AtomicU32,
    /// The last miss of each class, as `worth` keeps it.
    pub last_miss: [AtomicU32; TABLE_LEN],
    /// The state of each class as `note_words` saw it last.
    stood: [AtomicU16; TABLE_LEN],
}

/// The word of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

impl Word {
    pub const UNSET: Word = Word(0);

    pub const fn new(top: usize, end: usize) -> Word {
        Word(top as u64 | (end as u64) << 32)
    }

    pub const fn top(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }

    pub const fn end(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// The start of the array that the word points into: the place of its zero.
    pub fn base(self, class: SizeClass) -> usize {
        if self.end() < BIG_START { small_base(class) } else { big_base(class) }
    }

    /// Blocks that may be cached.
    pub fn capacity(self, class: SizeClass) -> usize {
        if self == Word::UNSET { 0 } else { (self.end() - self.base(class)) / ENTRY }
    }

    /// Blocks that are cached.
    pub fn len(self, class: SizeClass) -> usize {
        if self == Word::UNSET { 0 } else { (self.top() - self.base(class)) / ENTRY }
    }

    pub fn is_small(self) -> bool {
        self.end() < BIG_START
    }

    /// Blocks, or room for many: somebody else may want it.
    pub fn holds_anything(self, class: SizeClass) -> bool {
        self.len(class) > 0 || self.capacity(class) > SMALL_BLOCKS
    }

    /// Eight bits of it (multiplicative hashing: Knuth, TAOCP 3, 6.4).
    fn mixture(self) -> u16 {
        (self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u16
    }

    /// The word of this array with another capacity.
    pub fn with_capacity(self, class: SizeClass, blocks: usize) -> Word {
        Word::new(self.top(), self.base(class) + blocks * ENTRY)
    }

    /// An empty small array.
    pub fn empty_small(class: SizeClass, capacity: usize) -> Word {
        Word::new(small_base(class), small_base(class) + capacity * ENTRY)
    }

    /// An empty big array.
    pub fn empty_big(class: SizeClass, capacity: usize) -> Word {
        Word::new(big_base(class), big_base(class) + capacity * ENTRY)
    }
}

pub(super) const fn small_base(class: SizeClass) -> usize {
    SMALL_START + class.index() * SMALL_STRIDE
}

fn big_base(class: SizeClass) -> usize {
    BIG_BASES.get(class.index()).map_or(0, |base| *base as usize)
}

/// The most blocks of a class that one virtual CPU caches.
pub fn most_cached(class: SizeClass) -> usize {
    let base = big_base(class);
    let next = BIG_BASES.get(class.index() + 1).map_or(base, |next| *next as usize);
    ((next - base) / ENTRY).saturating_sub(1)
}

/// 8 MiB of large blocks, 8,192 small ones, 16,384 of the smallest.
const fn most_cached_of(block_bytes: usize) -> usize {
    let most = if block_bytes <= 128 { 16384 } else { 8192 };
    let by_bytes = (8 << 20) / block_bytes;
    if by_bytes < 16 {
        16
    } else if by_bytes > most {
        most
    } else {
        by_bytes
    }
}

const fn big_bases() -> [u32; TABLE_LEN + 1] {
    let mut bases = [0; TABLE_LEN + 1];
    let mut at = BIG_START;
    let mut class = 0;
    while class < TABLE_LEN {
        bases[class] = at as u32;
        let block_bytes = crate::class::block_bytes_of_index(class);
        if block_bytes > 0 {
            at += (most_cached_of(block_bytes) + 1) * ENTRY;
        }
        class += 1;
    }
    bases[TABLE_LEN] = at as u32;
    bases
}

/// A slab by its address. The words are changed by restartable sequences of the virtual CPU that owns it, or
/// under the slab's lock where it has one, or by whoever has frozen it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slab(pub usize);

impl Slab {
    fn word(&self, class: SizeClass) -> &AtomicU64 {
        // SAFETY: a slab's words are mapped as long as the heap lives; sequences read and write each whole.
        unsafe { &*core::ptr::with_exposed_provenance(self.0 + class.index() * ENTRY) }
    }

    /// A look at a word that may change at once.
    pub fn read(self, class: SizeClass) -> Word {
        Word(self.word(class).load(Ordering::Relaxed))
    }

    /// Changes a word. The caller is the only one who does.
    pub fn write(self, class: SizeClass, word: Word) {
        // Not before what the word counts is there: a child process may be made in between.
        self.word(class).store(word.0, Ordering::Release);
    }

    /// The place of a block, at an offset that comes from a word of this slab.
    pub fn entry(&self, offset: usize) -> &AtomicUsize {
        debug_assert!(offset < SLAB_BYTES);
        // SAFETY: a slab is mapped as long as the heap lives; the arrays that words point into are before the word does.
        unsafe { &*core::ptr::with_exposed_provenance(self.0 + offset) }
    }

    /// Says whose blocks these are. Nobody else uses the slab.
    pub fn set_owner(self, owner: u64) {
        self.word(SizeClass::LARGE).store(owner, Ordering::Release);
    }

    pub fn has_used_big_arrays(self) -> bool {
        self.info().big.load(Ordering::Relaxed) == USED
    }

    /// Gives the memory of the big arrays back, if they have any and no class is set up: only copies of
    /// addresses are left there. Nobody else uses the slab. If the system refuses, the memory stays until the
    /// arrays were used again: each try stops other CPUs.
    pub fn forget_big_arrays<O: Os>(self, os: &O) {
        if self.has_used_big_arrays() && SizeClass::all().all(|class| self.read(class) == Word::UNSET) {
            // First: a thread that is about to use them says so from here on.
            self.info().big.store(MAPPED, Ordering::Relaxed);
            let start = round_up(BIG_START, os.page_bytes());
            os.release(self.0 + start, SLAB_BYTES - start);
        }
    }

    /// Notes the words of this tick. True where any of them has changed since the last one.
    pub fn note_words(self) -> bool {
        let mut moved = false;
        for class in SizeClass::all() {
            let Some(stood) = self.info().stood.get(class.index()) else { continue };
            // Eight bits of each word are enough: a class that changes and seems not to, once in 256 times,
            // loses its cache a little early.
            let (seen, word) = (stood.load(Ordering::Relaxed), self.read(class));
            let changed = seen >> 8 != word.mixture();
            let ticks =
                if changed || word == Word::UNSET { 0 } else { (seen & 0xFF).saturating_add(1).min(0xFF) };
            stood.store(word.mixture() << 8 | ticks, Ordering::Relaxed);
            moved |= changed;
        }
        moved
    }

    /// For how many ticks the word of a class has not changed, as far as counted.
    pub fn ticks_still(self, class: SizeClass) -> Ticks {
        let stood = self.info().stood.get(class.index());
        Ticks(stood.map_or(0, |stood| u32::from(stood.load(Ordering::Relaxed) & 0xFF)))
    }

    pub fn info(&self) -> &Info {
        // SAFETY: the info lies inside the slab's mapping; its fields are atomics, valid when zeroed.
        unsafe { &*core::ptr::with_exposed_provenance(self.0 + INFO_START) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_do_not_overlap_and_fit_the_slab() {
        let mut ends = vec![(0, INFO_START), (INFO_START, SMALL_START)];
        for class in SizeClass::all() {
            let small = Word::empty_small(class, SMALL_BLOCKS);
            let big = Word::empty_big(class, most_cached(class));
            ends.push((small.top(), small.end() + ENTRY));
            ends.push((big.top(), big.end() + ENTRY));
            assert_eq!((small.capacity(class), small.len(class)), (SMALL_BLOCKS, 0));
            assert_eq!(big.capacity(class), most_cached(class));
            assert!(small.is_small() && !big.is_small());
        }
        ends.sort();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(ends.last().unwrap().1 <= SLAB_BYTES);
    }

    #[test]
    fn small_classes_have_long_arrays_and_large_ones_at_least_sixteen_places() {
        let most = |bytes| most_cached(SizeClass::for_small(bytes));
        assert_eq!([16, 128, 144, 1024, 4096, 256 << 10].map(most), [16384, 16384, 8192, 8192, 2048, 32]);
        assert!(SizeClass::all().all(|class| most_cached(class) >= 16));
    }

    #[test]
    fn the_words_of_no_block_and_of_large_blocks_stay_unset() {
        assert_eq!(Word::UNSET.capacity(SizeClass::for_small(1)), 0);
        assert!(SizeClass::LARGE.index() * ENTRY < INFO_START);
    }
}
