//! A daemon's load and its end: blocks for good at the start, then work that allocates and frees much more,
//! then nothing.
//!
//! The long-lived blocks come first, as a daemon's tables do, so every page of the load could go back. The
//! memory that stays resident after the stop is the allocator's choice and not fragmentation, which `survivors`
//! and `churn` measure.

use super::blocks::{Bag, LEAST_BYTES, Table, create, destroy};
use super::threads;
use crate::load::random::{Random, SizeLaw};
use crate::load::signal::Signal;
use crate::memory::board::{Board, Phase};
use clap::Args;
use std::sync::atomic::AtomicI64;

#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[arg(long, default_value_t = 16)]
    pub threads: usize,
    /// What stays live
    #[arg(long, default_value_t = 64)]
    pub live_mib: usize,
    /// What is live besides at the peak of each round
    #[arg(long, default_value_t = 512)]
    pub load_mib: usize,
    #[arg(long, default_value_t = 4)]
    pub rounds: u32,
}

/// 16 B to 16 KiB, every doubling equally often, so half of the bytes are in blocks of more than 8 KiB.
const COMMON: SizeLaw = SizeLaw::LogUniform { least: LEAST_BYTES, doublings: 10 };
/// One block in a hundred is a buffer.
const BUFFERS: SizeLaw = SizeLaw::LogUniform { least: 32 << 10, doublings: 3 };
/// Less than the mean of the sizes, so the tables do not end before the bytes do.
const BYTES_A_SLOT: usize = 512;

pub fn run(settings: &Settings, board: &'static Board) {
    let Settings { threads: count, rounds, .. } = *settings;
    let share = |mib: usize| (mib << 20) / count;
    let (live_share, load_share) = (share(settings.live_mib), share(settings.load_mib));
    let table_for = |share: usize| Table::new((share / BYTES_A_SLOT + 64) * count);
    let (base, load) = (table_for(live_share), table_for(load_share));
    let arrived: &'static Signal = Box::leak(Box::default());
    let all = count as u32;
    board.enter(Phase::Loading);
    threads::run(count, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        fill_base(base.part(thread, count), live_share, &mut random, live);
        let mut meetings = 0;
        let mut meet = || {
            arrived.raise();
            meetings += all;
            arrived.wait_for(meetings);
        };
        for round in 0..rounds {
            meet();
            fill(load.part(thread, count), load_share, &mut random, live);
            meet();
            if round + 1 == rounds && thread == 0 {
                board.enter(Phase::Releasing);
            }
            // Own blocks in even rounds, those of another thread in odd ones; 4 rounds end with another's.
            let owner = (thread + round as usize % 2) % count;
            let part = load.part(owner, count);
            (0..part.len()).for_each(|slot| destroy(part.take(slot), live));
        }
    });
    super::stop(board, base.live());
}

fn fill_base(part: Table, share: usize, random: &mut Random, live: &AtomicI64) {
    let mut bag = Bag::new(part, live);
    while bag.bytes() < share && bag.add(COMMON.bytes(random.next() >> 32)) {}
}

fn fill(part: Table, share: usize, random: &mut Random, live: &AtomicI64) {
    let mut bytes = 0;
    for slot in 0..part.len() {
        if bytes >= share {
            return;
        }
        let law = if random.below(100) == 0 { BUFFERS } else { COMMON };
        let size = law.bytes(random.next() >> 32);
        part.put(slot, create(size, live));
        bytes += size;
    }
}
