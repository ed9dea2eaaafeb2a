//! When an allocation is a sample: bytes are counted against random intervals.

use super::Cache;
use crate::base::chance::{exponential, next_random};
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::os::Os;
#[cfg(target_arch = "x86_64")]
use core::mem::offset_of;
use core::sync::atomic::AtomicI64;

/// Counters; slots share them. A power of two, for the sequences in `whole`.
const CELLS: usize = 16;
const _: () = assert!(CELLS.is_power_of_two() && size_of::<Cell>().is_power_of_two());
/// While nothing is sampled, cells look at the mean every so many bytes.
const IDLE_BYTES: u64 = 16 << 20;

/// The trigger. Zeroed: never.
pub struct Sampling {
    /// Bytes between two samples on average; 0: no samples.
    mean: AtomicU64,
    /// No request is served without being counted: somebody watches. Else refills count for those that are.
    counts_each: AtomicBool,
    cells: [Cell; CELLS],
}

/// What is left of an interval. Threads that share a cell may lose an update: a few bytes of one interval.
#[repr(align(64))]
struct Cell {
    /// 0: no interval was drawn yet. Below: it ended while nobody asked, and by so much.
    left: AtomicI64,
    random: AtomicU64,
}

/// Where the words lie that the sequences in `whole` count in.
#[cfg(target_arch = "x86_64")]
impl Sampling {
    pub const COUNTS_EACH: usize = offset_of!(Sampling, counts_each);
    pub const CELLS_LEFT: usize = offset_of!(Sampling, cells) + offset_of!(Cell, left);
    pub const LAST_CELL: usize = CELLS - 1;
    pub const CELL_SHIFT: u32 = size_of::<Cell>().ilog2();
}

impl Sampling {
    pub const fn new() -> Self {
        Sampling {
            mean: AtomicU64::new(0),
            counts_each: AtomicBool::new(false),
            cells: [const { Cell { left: AtomicI64::new(0), random: AtomicU64::new(0) } }; CELLS],
        }
    }

    pub fn mean(&self) -> u64 {
        self.mean.load(Ordering::Relaxed)
    }

    /// Whether each request is counted by itself.
    #[inline]
    pub fn counts_each(&self) -> bool {
        self.counts_each.load(Ordering::Relaxed)
    }

    /// Sets the mean and draws all intervals anew.
    fn set_mean(&self, mean: u64) {
        self.mean.store(mean, Ordering::Relaxed);
        self.cells.iter().for_each(|cell| cell.left.store(0, Ordering::Relaxed));
    }

    /// Counts a request of `bytes` in a cell; true where it ends the interval.
    fn count(&self, slot: usize, bytes: usize) -> bool {
        let Some(cell) = self.cells.get(slot % CELLS) else { return false };
        let left = cell.left.load(Ordering::Relaxed);
        // Absurd requests are refused later.
        let bytes = bytes.clamp(1, 1 << 60) as i64;
        if left > bytes {
            cell.left.store(left - bytes, Ordering::Relaxed);
            return false;
        }
        self.draw(cell, left, bytes)
    }

    /// Counts bytes that nobody will ask about one by one; the next request ends the interval if they do.
    fn spend(&self, slot: usize, bytes: usize) {
        if let Some(cell) = self.cells.get(slot % CELLS) {
            let left = cell.left.load(Ordering::Relaxed);
            let after = left.saturating_sub(bytes.min(1 << 60) as i64);
            if left != 0 {
                cell.left.store(if after == 0 { -1 } else { after }, Ordering::Relaxed);
            }
        }
    }

    #[cold]
    fn draw(&self, cell: &Cell, left: i64, bytes: i64) -> bool {
        let mean = self.mean();
        let mut state = cell.random.load(Ordering::Relaxed);
        if state == 0 {
            // Where the program was loaded is random enough, and differs between cells.
            state = (cell as *const Cell).addr() as u64;
        }
        let mut interval = || match mean {
            0 => IDLE_BYTES as i64,
            _ => exponential(next_random(&mut state), mean) as i64,
        };
        let before = if left == 0 { interval() } else { left };
        let is_due = before <= bytes;
        let after = match before {
            // What was passed over counts for the next interval.
            ..0 => before.saturating_add(interval()),
            _ if is_due => interval(),
            _ => before - bytes,
        };
        cell.left.store(if after == 0 { -1 } else { after }, Ordering::Relaxed);
        cell.random.store(state, Ordering::Relaxed);
        is_due && mean != 0
    }
}

impl<O: Os> Cache<O> {
    /// Samples are wanted once in `mean` bytes. `counts_each`: with the right weights, so that each request
    /// has to be looked at; the fast paths then leave all of them to the slow ones.
    pub fn watch(&self, mean: u64, counts_each: bool) {
        self.sampling.set_mean(mean);
        self.sampling.counts_each.store(counts_each, Ordering::Relaxed);
        if self.front.is_on() {
            self.front.set_direct(!counts_each);
        }
    }

    /// Counts a request of `bytes` that came to the slow path; true where it is to be a sample.
    #[inline]
    pub fn sample_is_due(&self, bytes: usize) -> bool {
        self.sampling.count(self.slot(), bytes)
    }

    /// Counts blocks that were put into a cache where the fast path takes them: as if they were asked for
    /// now. Under locks, and while somebody watches, every request is counted when it comes.
    pub(super) fn count_refilled(&self, bytes: usize) {
        if let Some(cpu) = self.front.current().filter(|_| !self.sampling.counts_each()) {
            self.sampling.spend(cpu, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sampled_until_a_mean_is_set() {
        let sampling = Sampling::new();
        assert!(!(0..10_000).any(|_| sampling.count(0, 1 << 20)));
        sampling.set_mean(1);
        assert!((0..10).all(|_| sampling.count(0, 100)), "every block is longer than the interval");
    }

    #[test]
    fn bytes_that_nobody_asks_about_make_later_requests_samples() {
        let sampling = Sampling::new();
        sampling.set_mean(10_000);
        sampling.count(0, 1);
        let samples = (0..10_000).filter(|_| {
            sampling.spend(0, 30_000);
            (0..10).filter(|_| sampling.count(0, 1)).count() > 0
        });
        assert!(samples.count() > 9_000);
        let rest: usize = (0..10_000)
            .map(|_| {
                sampling.spend(0, 5_000);
                (0..3).filter(|_| sampling.count(0, 1)).count()
            })
            .sum();
        assert!((4_500..5_500).contains(&rest), "one sample in two: {rest}");
    }

    #[test]
    fn one_block_in_as_many_as_the_mean_says_is_a_sample() {
        for bytes in [16, 1000, 100_000] {
            let sampling = Sampling::new();
            sampling.set_mean(100_000);
            let count = 2_000_000_000 / bytes;
            let samples = (0..count).filter(|_| sampling.count(3, bytes)).count() as f64;
            let expected = count as f64 * crate::base::chance::sampled_chance(bytes as u64, 100_000);
            assert!((samples / expected - 1.0).abs() < 0.05, "{bytes}: {samples}, not {expected}");
        }
    }
}
