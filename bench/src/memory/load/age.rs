//! Months in the life of a heap, compressed: programs that go on after a peak, or replace what they hold for ever.
//!
//! One thread works beside the first, as in a daemon.

use super::blocks::{Bag, Table, destroy};
use super::threads;
use crate::load::c_heap::{self, Block};
use crate::load::random::{Random, SizeLaw};
use crate::memory::board::{Board, Phase};
use clap::{Args, ValueEnum};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Args)]
pub struct Settings {
    pub pattern: Pattern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// 100 buffers of 1 to 64 MiB with three written pages each; 20,000 are replaced (live: the written bytes)
    SparseBuffers,
    /// A peak of 300 MiB, nine tenths freed, then ten batches a second of 1,000 frees and mallocs for 15 s
    SmallBatches,
    /// The same with batches of 5,000
    LargeBatches,
    /// 8,000 buffers that grow in turns to 64 KiB, twice
    Turns,
    /// Four days of 256 MiB in blocks of other sizes each, and nights in which a tenth stays and little happens
    DaysAndNights,
}

pub fn run(settings: &Settings, board: &'static Board) {
    board.enter(Phase::Loading);
    let pattern = settings.pattern;
    let table = Table::new(match pattern {
        Pattern::SparseBuffers => 100,
        Pattern::SmallBatches | Pattern::LargeBatches => PEAK_BYTES / BATCH_BYTES,
        Pattern::Turns => 8000,
        Pattern::DaysAndNights => DAY_BYTES / 64,
    });
    threads::run(1, move |thread| {
        let live = board.live_counter(thread);
        match pattern {
            Pattern::SparseBuffers => sparse(table, live),
            Pattern::SmallBatches => batches(1000, table, live),
            Pattern::LargeBatches => batches(5000, table, live),
            Pattern::Turns => turns(table, live),
            Pattern::DaysAndNights => days(table, live),
        }
    });
    if pattern == Pattern::SparseBuffers {
        // Most of their pages were never written, so they are not counted by their sizes.
        super::stop(board, std::iter::empty());
    } else {
        super::stop(board, table.live());
    }
}

const WRITTEN: i64 = 3 * 4096;
const REPLACED: usize = 20_000;

fn sparse(table: Table, live: &AtomicI64) {
    let mut random = Random::seeded(25);
    for _ in 0..REPLACED {
        let bytes = (1 << 20) + random.below(63 << 20);
        let slot = random.below(table.len());
        let former = table.take(slot);
        if !former.is_null() {
            live.fetch_sub(WRITTEN, Ordering::Relaxed);
        }
        // SAFETY: null or a block of this table, which nobody else has; the places are within the new block.
        unsafe {
            c_heap::release(former);
            let block = c_heap::allocate(bytes);
            [0, random.below(bytes), bytes - 1].into_iter().for_each(|place| c_heap::touch(block, place));
            table.put(slot, block);
        }
        live.fetch_add(WRITTEN, Ordering::Relaxed);
    }
}

const PEAK_BYTES: usize = 300 << 20;
const BATCH_BYTES: usize = 700;
const BATCHES: u32 = 150;
const BETWEEN: Duration = Duration::from_millis(100);

fn batches(batch: usize, table: Table, live: &AtomicI64) {
    let mut random = Random::seeded(26);
    let mut bag = Bag::new(table, live);
    while bag.add(BATCH_BYTES) {}
    while bag.count() > table.len() / 10 {
        bag.remove(random.below(bag.count()));
    }
    let begin = Instant::now();
    for turn in 1..=BATCHES {
        (0..batch).for_each(|_| bag.remove(random.below(bag.count())));
        (0..batch).for_each(|_| {
            bag.add(BATCH_BYTES);
        });
        std::thread::sleep((begin + BETWEEN * turn).saturating_duration_since(Instant::now()));
    }
}

const FULL_BYTES: usize = 64 << 10;

/// Buffers of network or of logs: each grows by half and something as its part of the input arrives.
fn turns(table: Table, live: &AtomicI64) {
    for round in 0..2 {
        (0..table.len()).for_each(|slot| destroy(table.take(slot), live));
        let (mut random, mut full) = (Random::seeded(round), 0);
        while full < table.len() {
            let slot = random.below(table.len());
            let block = table.take(slot);
            let bytes = if block.is_null() { 0 } else { super::blocks::noted_bytes(block) };
            let more = (bytes + bytes / 2 + 200 + random.below(500)).min(FULL_BYTES);
            full += usize::from(bytes < FULL_BYTES && more == FULL_BYTES);
            table.put(slot, if bytes == FULL_BYTES { block } else { grown(block, bytes, more, live) });
        }
    }
}

fn grown(block: Block, bytes: usize, more: usize, live: &AtomicI64) -> Block {
    // SAFETY: null or a block that its table gave up; the note is at its start, the new bytes are within it.
    unsafe {
        let block = c_heap::reallocate(block, more);
        block.cast::<u64>().write(more as u64);
        let start = bytes.max(size_of::<u64>());
        block.add(start).write_bytes(1, more - start);
        live.fetch_add((more - bytes) as i64, Ordering::Relaxed);
        block
    }
}

const DAY_BYTES: usize = 256 << 20;
const DAYS: [SizeLaw; 4] = [
    SizeLaw::Uniform { least: 64, greatest: 500 },
    SizeLaw::LogUniform { least: 1024, doublings: 5 },
    SizeLaw::Uniform { least: 300, greatest: 2000 },
    SizeLaw::LogUniform { least: 16, doublings: 12 },
];
const NIGHT_STEPS: u32 = 30;
const REPLACED_A_STEP: usize = 100;

fn days(table: Table, live: &AtomicI64) {
    let mut random = Random::seeded(24);
    let mut bag = Bag::new(table, live);
    for law in DAYS {
        let size = |random: &mut Random| law.bytes(random.next() >> 32).max(super::blocks::LEAST_BYTES);
        while bag.bytes() < DAY_BYTES && bag.add(size(&mut random)) {}
        while bag.bytes() > DAY_BYTES / 10 {
            bag.remove(random.below(bag.count()));
        }
        for _ in 0..NIGHT_STEPS {
            for _ in 0..REPLACED_A_STEP.min(bag.count()) {
                bag.remove(random.below(bag.count()));
                bag.add(size(&mut random));
            }
            std::thread::sleep(BETWEEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_grew_in_turns_are_full_and_counted() {
        let (board, _) = Board::create().unwrap();
        let table = Table::new(20);
        turns(table, board.live_counter(0));
        assert_eq!(table.live().filter(|block| block.1 == FULL_BYTES).count(), 20);
        assert_eq!(board.live_bytes(), 20 * FULL_BYTES as u64);
    }
}
