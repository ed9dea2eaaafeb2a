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

    #[test]
    fn what_is_kept_is_a_twentieth_of_each_size_and_of_the_bytes() {
        let mut kept = [0usize; 3];
        for bytes in order().step_by(KEPT_OF) {
            let place = SIZES.iter().position(|size| size.0 == bytes).unwrap();
            kept[place] += 1;
        }
        assert_eq!(kept.iter().sum::<usize>(), 15_000);
        for (kept, size) in kept.iter().zip(SIZES) {
            assert!(
                kept.abs_diff(size.1 / KEPT_OF) <= size.1 / 200,
                "{kept} of {} of {} bytes",
                size.1,
                size.0
            );
        }
        assert_eq!(order().map(|bytes| bytes as u64).sum::<u64>(), 281_600_000);
    }
}
