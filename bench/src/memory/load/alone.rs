//! A process of one thread, as most servers are made of: a burst, then nothing, or little.
//!
//! An allocator with a thread of its own for such work has none here, unless it is told to have one always.

use super::blocks::{Table, create, destroy};
use crate::memory::board::{Board, Phase};
use clap::{Args, ValueEnum};

#[derive(Clone, Debug, Args)]
pub struct Settings {
    pub pattern: Pattern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// 400 MB in blocks of 1,000 B, 20 kB and 1 MB, all freed, then no call
    Silence,
    /// The same, then a malloc and a free of 100 B every 100 ms
    LightTraffic,
    /// 400 MB in blocks of 1 MB, filled and freed a hundred times: what giving back costs where it is wanted again
    AgainAndAgain,
}

/// Bytes, and how many blocks of them.
const BURST: [(usize, usize); 3] = [(1000, 130_000), (20_000, 6500), (1_000_000, 140)];
const AGAIN: [(usize, usize); 1] = [(1_000_000, 400)];
const TIMES: usize = 100;

pub fn run(settings: &Settings, board: &'static Board) {
    let (sizes, times) = match settings.pattern {
        Pattern::Silence | Pattern::LightTraffic => (&BURST[..], 1),
        Pattern::AgainAndAgain => (&AGAIN[..], TIMES),
    };
    let live = board.live_counter(0);
    let table = Table::new(sizes.iter().map(|size| size.1).sum());
    board.enter(Phase::Loading);
    for _ in 0..times {
        let blocks = sizes.iter().flat_map(|&(bytes, count)| std::iter::repeat_n(bytes, count));
        blocks.enumerate().for_each(|(slot, bytes)| table.put(slot, create(bytes, live)));
        (0..table.len()).for_each(|slot| destroy(table.take(slot), live));
    }
    super::stop(board, table.live());
}
