//! The fast path: nanoseconds per malloc/free pair on one thread, in the orders that tell caches apart.
//!
//! Blocks are not touched: what a program does with its block costs the same everywhere, and what the
//! allocator itself reads and writes in it is to be seen. Each cell runs in its own process, so no cell
//! inherits another's heap.

use crate::load::c_heap::{self, Block};
use crate::load::mapped::zeroed_array;
use crate::load::random::{Random, SizeLaw};
use std::time::Instant;
use vcm_measure::statistics;

const REPETITIONS: usize = 25;
const SMALL_BATCH: usize = 32;
const BIG_BATCH: usize = 1000;

/// The order of mallocs and frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// malloc, free, malloc, free: with nothing else live.
    Pair,
    /// malloc, free, malloc, free, while 1,000 blocks of the size are live.
    PairAmongLive,
    /// 32 mallocs, then 32 frees, the last block first.
    BatchLifo,
    /// 1,000 mallocs, then 1,000 frees, the first block first.
    BatchFifo,
    /// 1,000 mallocs, then 1,000 frees in a shuffled order.
    BatchRandom,
    /// 16 B to 4 KiB, each doubling equally likely, replaced at random among 1,024 live blocks.
    Mixed,
    /// calloc, free.
    Zeroed,
    /// posix_memalign to a page, free: what a storage engine does for O_DIRECT.
    PageAligned,
}

/// Nanoseconds per pair over the repetitions, and how many pairs that were.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairTimes {
    pub minimum: f64,
    pub median: f64,
    pub pairs: u64,
}

/// Repeats the cell 25 times for together about `seconds`.
pub fn measure(order: Order, bytes: usize, seconds: f64) -> PairTimes {
    match order {
        Order::Pair => repeat(seconds, 1, || pair(bytes)),
        Order::PairAmongLive => {
            let live: Vec<Block> = (0..BIG_BATCH).map(|_| c_heap::allocate(bytes)).collect();
            let times = repeat(seconds, 1, || pair(bytes));
            // SAFETY: each came from allocate above and is freed once.
            live.into_iter().for_each(|block| unsafe { c_heap::release(block) });
            times
        }
        Order::BatchLifo => {
            let mut blocks = [std::ptr::null_mut(); SMALL_BATCH];
            repeat(seconds, SMALL_BATCH, || batch(bytes, &mut blocks, |position| SMALL_BATCH - 1 - position))
        }
        Order::BatchFifo => {
            let blocks = zeroed_array(BIG_BATCH);
            repeat(seconds, BIG_BATCH, || batch(bytes, blocks, |position| position))
        }
        Order::BatchRandom => {
            let blocks = zeroed_array(BIG_BATCH);
            let order = shuffled(BIG_BATCH);
            repeat(seconds, BIG_BATCH, || batch(bytes, blocks, |position| order[position] as usize))
        }
        Order::Mixed => mixed(seconds),
        Order::Zeroed => {
            // SAFETY: freed once, at once.
            repeat(seconds, 1, || unsafe { c_heap::release(c_heap::allocate_zeroed(bytes)) })
        }
        Order::PageAligned => {
            // SAFETY: freed once, at once.
            repeat(seconds, 1, || unsafe { c_heap::release(c_heap::allocate_aligned(4096, bytes)) })
        }
    }
}

#[inline(always)]
fn pair(bytes: usize) {
    // SAFETY: freed once, at once.
    unsafe { c_heap::release(c_heap::allocate(bytes)) };
}

#[inline(always)]
fn batch(bytes: usize, blocks: &mut [Block], order: impl Fn(usize) -> usize) {
    blocks.iter_mut().for_each(|block| *block = c_heap::allocate(bytes));
    for position in 0..blocks.len() {
        // SAFETY: `order` is a permutation, so each block is freed once.
        unsafe { c_heap::release(blocks[order(position)]) };
    }
}

/// Slots and sizes are drawn beforehand (16,384 steps, 64 KiB), so that the loop times the heap and not the
/// generator.
fn mixed(seconds: f64) -> PairTimes {
    const SLOTS: usize = 1024;
    const STEPS: usize = 16_384;
    let law = SizeLaw::LogUniform { least: 16, doublings: 8 };
    let mut random = Random::seeded(1);
    let steps: &mut [u32] = zeroed_array(STEPS);
    for step in steps.iter_mut() {
        *step = (random.below(SLOTS) << 16 | law.bytes(random.next() >> 32)) as u32;
    }
    let blocks: &mut [Block] = zeroed_array(SLOTS);
    let times = repeat(seconds, STEPS, || {
        for step in steps.iter() {
            let slot = &mut blocks[(step >> 16) as usize];
            // SAFETY: the slot holds null or the block that was put there below, and gets a new one at once.
            unsafe { c_heap::release(*slot) };
            *slot = c_heap::allocate((step & 0xFFFF) as usize);
        }
    });
    // SAFETY: each slot holds null or a live block.
    blocks.iter().for_each(|&block| unsafe { c_heap::release(block) });
    times
}

/// A fixed permutation of `0..count`.
fn shuffled(count: usize) -> &'static [u32] {
    let mut random = Random::seeded(2);
    let order: &'static mut [u32] = zeroed_array(count);
    order.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
    for position in (1..count).rev() {
        order.swap(position, random.below(position + 1));
    }
    order
}

/// Finds a round count that takes a repetition's share of `seconds`, which warms up too, and then times
/// repetitions.
fn repeat(seconds: f64, pairs_a_round: usize, mut round: impl FnMut()) -> PairTimes {
    let share = seconds / REPETITIONS as f64;
    let mut time = |rounds: u64| {
        let start = Instant::now();
        (0..rounds).for_each(|_| round());
        start.elapsed().as_secs_f64()
    };
    let mut rounds = 1;
    while time(rounds) < share / 2.0 {
        rounds *= 2;
    }
    let pairs = rounds * pairs_a_round as u64;
    let times: Vec<f64> = (0..REPETITIONS).map(|_| time(rounds) * 1e9 / pairs as f64).collect();
    PairTimes {
        minimum: statistics::minimum(&times).unwrap_or_default(),
        median: statistics::median(&times).unwrap_or_default(),
        pairs: pairs * REPETITIONS as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_order_is_a_permutation_and_not_the_identity() {
        let order = shuffled(1000);
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000));
        assert_ne!(sorted, order);
    }
}
