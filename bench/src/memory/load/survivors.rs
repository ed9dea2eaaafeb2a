//! A peak of small blocks of which a random few stay: the worst case for an allocator that cannot move
//! blocks.
//!
//! With blocks of 64 to 512 bytes and one survivor in ten, about three pages in four keep a survivor: the
//! pages that hold a live block are the limit, and `stop` counts them.

use super::blocks::{Table, create, destroy};
use super::threads;
use crate::load::random::{Random, SizeLaw};
use crate::memory::board::{Board, Phase};
use clap::Args;

#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Requested bytes at the peak
    #[arg(long, default_value_t = 2.0)]
    pub gib: f64,
    /// Threads that allocate; as many others free
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
    #[arg(long, default_value_t = 10)]
    pub survivor_percent: usize,
}

const LEAST: usize = 64;
const GREATEST: usize = 512;

pub fn run(settings: &Settings, board: &'static Board) {
    let Settings { threads: count, survivor_percent, .. } = *settings;
    let blocks = (settings.gib * f64::from(1 << 30)) as usize / ((LEAST + GREATEST) / 2);
    let table = Table::new(blocks.next_multiple_of(count));
    board.enter(Phase::Loading);
    threads::run(count, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded(thread as u64));
        let law = SizeLaw::Uniform { least: LEAST, greatest: GREATEST };
        let part = table.part(thread, count);
        (0..part.len()).for_each(|slot| part.put(slot, create(law.bytes(random.next() >> 32), live)));
    });
    board.enter(Phase::Releasing);
    // The first threads still exist and keep their caches; these are others.
    threads::run(count, move |thread| {
        let (live, mut random) = (board.live_counter(thread), Random::seeded((count + thread) as u64));
        let part = table.part(thread, count);
        let dies = |random: &mut Random| random.below(100) >= survivor_percent;
        (0..part.len()).filter(|_| dies(&mut random)).for_each(|slot| destroy(part.take(slot), live));
    });
    super::stop(board, table.live());
}
