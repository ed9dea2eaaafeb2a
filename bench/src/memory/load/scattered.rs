//! The cell that mimalloc-pprof publishes for itself: 150,000 blocks of 512 bytes, 100,000 of 1 KiB and
//! 50,000 of 2 KiB in turn, every twentieth kept, the others freed, all by one thread, which is idle then.
//!
//! Nearly every span of an allocator keeps a block, so only one that gives back pages inside of a used span
//! can give back anything.

use super::blocks::{Table, create, destroy};
use super::threads;
use crate::memory::board::{Board, Phase};
use clap::Args;

#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// By a thread beside the first, as in a daemon; some allocators have a thread of their own only in such a
    /// process
    #[arg(long)]
    pub beside: bool,
    /// Asks the allocator for what it has to give back every 100 ms: its own call, where it has one
    #[arg(long)]
    pub asking: bool,
}

/// Bytes, and how many blocks of them.
const SIZES: [(usize, usize); 3] = [(512, 150_000), (1024, 100_000), (2048, 50_000)];
const KEPT_OF: usize = 20;

pub fn run(settings: &Settings, board: &'static Board) {
    let table = Table::new(SIZES.iter().map(|size| size.1).sum());
    let work = move |thread| {
        let live = board.live_counter(thread);
        board.enter(Phase::Loading);
        order().enumerate().for_each(|(slot, bytes)| table.put(slot, create(bytes, live)));
        board.enter(Phase::Releasing);
        let freed = (0..table.len()).filter(|slot| slot % KEPT_OF != 0);
        freed.for_each(|slot| destroy(table.take(slot), live));
    };
    if settings.beside {
        threads::run(1, work)
    } else {
        work(0)
    }
    super::stop(board, table.live());
}

/// One of each size in turn, for as long as there are any.
fn order() -> impl Iterator<Item = usize> {
    let longest = SIZES.iter().map(|size| size.1).max().unwrap_or(0);
    (0..longest).flat_map(|turn| SIZES.iter().filter(move |size| turn < size.1).map(|size| size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While two sizes are left they alternate, so every twentieth is of one of them: so it is in the published
    /// cell.
    #[test]
    fn what_is_made_and_what_is_kept_are_those_of_the_published_cell() {
        let count =
            |sizes: Vec<usize>| SIZES.map(|size| sizes.iter().filter(|&&bytes| bytes == size.0).count());
        assert_eq!(count(order().collect()), [150_000, 100_000, 50_000]);
        assert_eq!(count(order().step_by(KEPT_OF).collect()), [10_000, 2500, 2500]);
    }
}
