//! Fragmentation over a long time, compressed: patterns that leave an allocator with more pages than it
//! needs.
//!
//! Every pattern is a number of steps, not a time, so each allocator ends with the same live blocks.
//! `--seconds` chooses the number so that a run takes about that long on two CPUs.

use super::blocks::{Bag, LEAST_BYTES, Table, create, destroy};
use super::threads;
use crate::load::random::{Random, SizeLaw};
use crate::memory::board::{Board, Phase};
use clap::{Args, ValueEnum};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug, Args)]
pub struct Settings {
    pub pattern: Pattern,
    /// About how long
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Sizes drift from 32 B to 32 KiB and back; blocks die at random
    Drift,
    /// Peaks of one size, random survivors, refilled with another size
    Refill,
    /// 4 KiB + header blocks in waves, each with small metadata that outlives it
    Pinned,
    /// 64 threads allocate, 4 free
    ManyAllocate,
    /// 4 threads allocate, 64 free
    FewAllocate,
}

pub fn run(settings: &Settings, board: &'static Board) {
    board.enter(Phase::Loading);
    let seconds = settings.seconds;
    let tables = match settings.pattern {
        Pattern::Drift => [drift(seconds, board), Table::new(0)],
        Pattern::Refill => [refill(seconds, board), Table::new(0)],
        Pattern::Pinned => pinned(seconds, board),
        Pattern::ManyAllocate => [hand_over(64, 4, seconds, board), Table::new(0)],
        Pattern::FewAllocate => [hand_over(4, 64, seconds, board), Table::new(0)],
    };
    super::stop(board, tables[0].live().chain(tables[1].live()));
}

/// Around a middle: from three quarters of it to five quarters.
fn around(middle: usize, random: &mut Random) -> usize {
    middle - middle / 4 + random.below(middle / 2 + 1)
}

fn drift(seconds: f64, board: &'static Board) -> Table {
    const THREADS: usize = 8;
    const BUDGET: usize = (128 << 20) / THREADS;
    const STEPS_A_SECOND: f64 = 150_000.0;
    let table = Table::new(THREADS * (BUDGET / 24));
    let steps = (seconds * STEPS_A_SECOND) as usize;
    threads::run(THREADS, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        let mut bag = Bag::new(table.part(thread, THREADS), live);
        while bag.bytes() < BUDGET && bag.add(around(32, &mut random)) {}
        for step in 0..steps {
            let bytes = around(drifting_size(step as f64 / steps as f64), &mut random);
            while bag.bytes() + bytes > BUDGET || bag.count() == bag.capacity() {
                bag.remove(random.below(bag.count()));
            }
            bag.add(bytes);
        }
    });
    table
}

/// 32 B at both ends of the time from 0 to 1 and 32 KiB in the middle, every doubling equally long.
fn drifting_size(time: f64) -> usize {
    let height = 1.0 - (2.0 * time - 1.0).abs();
    (32.0 * (10.0 * height).exp2()) as usize
}

fn refill(seconds: f64, board: &'static Board) -> Table {
    const THREADS: usize = 8;
    const PEAK: usize = (192 << 20) / THREADS;
    const SIZES: [usize; 8] = [64, 200, 1000, 5000, 300, 20_000, 128, 2500];
    const CYCLES_A_SECOND: f64 = 4.0;
    let table = Table::new(THREADS * (PEAK / 32));
    let cycles = ((seconds * CYCLES_A_SECOND) as usize).max(2);
    threads::run(THREADS, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        let mut bag = Bag::new(table.part(thread, THREADS), live);
        for size in SIZES.into_iter().cycle().take(cycles) {
            while bag.bytes() < PEAK && bag.add(around(size, &mut random)) {}
            // A tenth of the bytes stays, of whatever age.
            while bag.bytes() > PEAK / 10 {
                bag.remove(random.below(bag.count()));
            }
        }
    });
    table
}

fn pinned(seconds: f64, board: &'static Board) -> [Table; 2] {
    const THREADS: usize = 4;
    const DATA_BLOCKS: usize = (96 << 20) / 4200 / THREADS;
    const METADATA_A_DATA_BLOCK: usize = 8;
    const WAVES_A_SECOND: f64 = 40.0;
    const METADATA: SizeLaw = SizeLaw::Uniform { least: 48, greatest: 192 };
    let data = Table::new(THREADS * DATA_BLOCKS);
    let metadata = Table::new(THREADS * DATA_BLOCKS * METADATA_A_DATA_BLOCK);
    let waves = ((seconds * WAVES_A_SECOND) as usize).max(2);
    threads::run(THREADS, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        let mut payloads = Bag::new(data.part(thread, THREADS), live);
        let mut notes = Bag::new(metadata.part(thread, THREADS), live);
        for _ in 0..waves {
            while payloads.add(4096 + 56 + random.below(64)) {
                if notes.count() == notes.capacity() {
                    notes.remove(random.below(notes.count()));
                }
                notes.add(METADATA.bytes(random.next() >> 32));
            }
            while payloads.count() > DATA_BLOCKS / 10 {
                payloads.remove(random.below(payloads.count()));
            }
        }
    });
    [data, metadata]
}

/// Blocks of 16 B to 16 KiB pass through a table: some threads fill random slots, others empty them.
fn hand_over(allocating: usize, freeing: usize, seconds: f64, board: &'static Board) -> Table {
    const SLOTS: usize = 32 << 10;
    const LAW: SizeLaw = SizeLaw::LogUniform { least: LEAST_BYTES, doublings: 10 };
    const STEPS_A_SECOND: f64 = 500_000.0;
    let table = Table::new(SLOTS);
    let counts: &'static Counts = Box::leak(Box::default());
    let steps_each = (seconds * STEPS_A_SECOND) as usize / allocating;
    threads::run(allocating + freeing, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        if thread < allocating {
            for _ in 0..steps_each {
                counts.wait_while(|held| held > SLOTS * 9 / 10);
                let block = create(LAW.bytes(random.next() >> 32), live);
                while !table.offer(random.below(SLOTS), block) {}
                counts.held.fetch_add(1, Ordering::Relaxed);
            }
            counts.done.fetch_add(1, Ordering::Release);
            return;
        }
        let is_over = || counts.done.load(Ordering::Acquire) == allocating;
        while !is_over() {
            counts.wait_while(|held| held < SLOTS / 2 && !is_over());
            counts.free(table, random.below(SLOTS), live);
        }
        let part = thread - allocating;
        (SLOTS / 4..SLOTS).skip(part).step_by(freeing).for_each(|slot| counts.free(table, slot, live));
    });
    // The first quarter of the slots is left, half full at the least: the same number of blocks for every
    // allocator.
    let occupied = (0..SLOTS / 4).filter(|&slot| table.holds(slot));
    occupied.skip(SLOTS / 10).for_each(|slot| counts.free(table, slot, board.live_counter(0)));
    table
}

#[derive(Default)]
struct Counts {
    held: AtomicUsize,
    done: AtomicUsize,
}

impl Counts {
    /// Memory is what is measured here and not speed, so waiting may be simple.
    fn wait_while(&self, condition: impl Fn(usize) -> bool) {
        while condition(self.held.load(Ordering::Relaxed)) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    fn free(&self, table: Table, slot: usize, live: &std::sync::atomic::AtomicI64) {
        let block = table.take(slot);
        if !block.is_null() {
            self.held.fetch_sub(1, Ordering::Relaxed);
            destroy(block, live);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_drift_up_and_down_again() {
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(drifting_size), [32, 1024, 32 << 10, 1024, 32]);
    }

    #[test]
    fn every_pattern_ends_with_live_blocks_that_were_counted() {
        for pattern in Pattern::value_variants() {
            let (board, _) = Board::create().unwrap();
            run(&Settings { pattern: *pattern, seconds: 0.01 }, board);
            let (live, pages) = (board.live_bytes(), board.page_bytes.load(Ordering::Relaxed));
            assert!(live > 0 && pages >= live / 2, "{pattern:?}: {live} live, {pages} in pages");
            assert!(board.usable_bytes.load(Ordering::Relaxed) >= live, "{pattern:?}");
        }
    }
}
