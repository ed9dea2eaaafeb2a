//! When an allocation is a sample: bytes are counted against random intervals.

use super::Cache;
use crate::base::ceilings::SAMPLING_CELLS;
use crate::base::chance::{exponential, next_random};
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::os::Os;
#[cfg(target_arch = "x86_64")]
use core::mem::offset_of;
use core::sync::atomic::AtomicI64;

const _: () = assert!(SAMPLING_CELLS.is_power_of_two() && size_of::<Cell>().is_power_of_two());
/// While nothing is sampled, cells look at the mean every so many bytes.
const IDLE_BYTES: u64 = 16 << 20;

/// The trigger. Zeroed: never.
pub struct Sampling {
    /// Bytes between two samples on average; 0: no samples.
    mean: AtomicU64,
    /// No request is served without being counted: somebody watches, or slow paths are to come by. Else refills count for
    /// those that are.
    counts_each: AtomicBool,
    /// The sequences may count: each thread is served by the process's own heap.
    counts_in_sequence: AtomicBool,
    /// Why requests are looked at: `WATCHED`, `LOOKS`, `SCOPED`.
    reasons: AtomicU32,
    /// Bytes between two looks around, while those are wanted.
    look: AtomicU64,
    cells: [Cell; SAMPLING_CELLS],
}

/// Samples are wanted with the right weights.
const WATCHED: u32 = 1;
/// Somebody wants to look around every so many bytes.
const LOOKS: u32 = 2;
/// Some thread has a tenant's heap of its own, or had.
const SCOPED: u32 = 4;

/// The outcome of counting a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The interval goes on.
    Within,
    /// It ended: a look around is due.
    Over,
    /// The request is to be a sample.
    Sample,
}

/// The rest of an interval. Threads that share a cell may lose an update: a few bytes of one interval.
#[repr(align(64))]
struct Cell {
    /// 0: no interval was drawn yet. Below: it ended while nobody asked, and by so much.
    left: AtomicI64,
    random: AtomicU64,
    /// The rest of the interval, behind the next look around.
    beyond: AtomicI64,
}

/// Offsets of the words that the sequences in `fast_path` count in.
#[cfg(target_arch = "x86_64")]
impl Sampling {
    pub const COUNTS_EACH: usize = offset_of!(Sampling, counts_in_sequence);
    /// Whether somebody watches, whatever heaps threads have.
    pub const IS_WATCHED: usize = offset_of!(Sampling, counts_each);
    pub const CELLS_LEFT: usize = offset_of!(Sampling, cells) + offset_of!(Cell, left);
    pub const LAST_CELL: usize = SAMPLING_CELLS - 1;
    pub const CELL_SHIFT: u32 = size_of::<Cell>().ilog2();
}

impl Sampling {
    pub const fn new() -> Self {
        Sampling {
            mean: AtomicU64::new(0),
            counts_each: AtomicBool::new(false),
            counts_in_sequence: AtomicBool::new(false),
            reasons: AtomicU32::new(0),
            look: AtomicU64::new(0),
            cells: [const {
                Cell { left: AtomicI64::new(0), random: AtomicU64::new(0), beyond: AtomicI64::new(0) }
            }; SAMPLING_CELLS],
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
        let drawn = self.cells.iter().filter(|cell| cell.left.load(Ordering::Relaxed) != 0);
        drawn.for_each(|cell| cell.left.store(0, Ordering::Relaxed));
    }

    /// Counts a request of `bytes` in a cell; true where it is to be a sample.
    #[cfg(test)]
    fn count(&self, slot: usize, bytes: usize) -> bool {
        self.counted(slot, bytes) == Counted::Sample
    }

    /// Counts a request of `bytes` in a cell.
    fn counted(&self, slot: usize, bytes: usize) -> Counted {
        let Some(cell) = self.cells.get(slot % SAMPLING_CELLS) else { return Counted::Within };
        let left = cell.left.load(Ordering::Relaxed);
        // Absurd requests are refused later.
        let bytes = bytes.clamp(1, 1 << 60) as i64;
        if left > bytes {
            cell.left.store(left - bytes, Ordering::Relaxed);
            return Counted::Within;
        }
        if self.draw(cell, left, bytes) { Counted::Sample } else { Counted::Over }
    }

    /// Counts bytes that nobody will ask about one by one; the next request ends the interval if they do.
    fn spend(&self, slot: usize, bytes: usize) {
        if let Some(cell) = self.cells.get(slot % SAMPLING_CELLS) {
            let left = cell.left.load(Ordering::Relaxed);
            let after = left.saturating_sub(bytes.min(1 << 60) as i64);
            if left != 0 {
                cell.left.store(if after == 0 { -1 } else { after }, Ordering::Relaxed);
            }
        }
    }

    /// Sets what is left of an interval, with a look around on its way where one is wanted.
    fn split(&self, cell: &Cell, left: i64) {
        let look = match self.reasons.load(Ordering::Relaxed) & LOOKS {
            0 => i64::MAX,
            _ => self.look.load(Ordering::Relaxed) as i64,
        };
        let near = left.min(look);
        cell.beyond.store(left.saturating_sub(near), Ordering::Relaxed);
        cell.left.store(if near == 0 { -1 } else { near }, Ordering::Relaxed);
    }

    /// Has intervals that were drawn before end at the next look around.
    fn shorten(&self) {
        let drawn = self.cells.iter().filter(|cell| cell.left.load(Ordering::Relaxed) > 0);
        drawn.for_each(|cell| {
            let beyond = cell.beyond.load(Ordering::Relaxed);
            self.split(cell, cell.left.load(Ordering::Relaxed).saturating_add(beyond));
        });
    }

    #[cold]
    fn draw(&self, cell: &Cell, left: i64, bytes: i64) -> bool {
        let mean = self.mean();
        let mut state = cell.random.load(Ordering::Relaxed);
        if state == 0 {
            // The address at which the program was loaded is random enough, and differs between cells.
            state = (cell as *const Cell).addr() as u64;
        }
        let mut interval = || match mean {
            0 => IDLE_BYTES as i64,
            _ => exponential(next_random(&mut state), mean) as i64,
        };
        let before = match left {
            0 => interval(),
            left => left.saturating_add(cell.beyond.load(Ordering::Relaxed)),
        };
        let is_due = before <= bytes;
        let after = match before {
            // Bytes that were passed over count for the next interval.
            ..0 => before.saturating_add(interval()),
            _ if is_due => interval(),
            _ => before - bytes,
        };
        self.split(cell, after);
        cell.random.store(state, Ordering::Relaxed);
        is_due && mean != 0
    }
}

impl<O: Os> Cache<O> {
    /// Samples are wanted once in `mean` bytes. `counts_each`: with the right weights, so that each request
    /// has to be looked at; the fast paths then leave all of them to the slow ones.
    pub fn watch(&self, mean: u64, counts_each: bool) {
        self.sampling.set_mean(mean);
        self.set_reason(WATCHED, counts_each);
    }

    /// Has the slow path of malloc come by each time when so many bytes were asked for, at most; 0: no more often than it
    /// has to.
    pub fn look_every(&self, bytes: u64) {
        let sampling = &self.sampling;
        let before = sampling.look.swap(bytes, Ordering::Relaxed);
        let were_wanted = sampling.reasons.load(Ordering::Relaxed) & LOOKS != 0;
        if were_wanted != (bytes != 0) {
            self.set_reason(LOOKS, bytes != 0);
        }
        if !were_wanted || bytes < before {
            sampling.shorten();
        }
    }

    /// From now on threads may have heaps of their own: each request is served by the heap of its thread.
    pub fn scope(&self) {
        // Another thread may have said so, and not have come further.
        if !self.is_scoped() || self.front.is_direct_for_all() {
            self.set_reason(SCOPED, true);
        }
    }

    /// Whether that was said.
    #[inline]
    pub fn is_scoped(&self) -> bool {
        self.sampling.reasons.load(Ordering::Relaxed) & SCOPED != 0
    }

    fn set_reason(&self, reason: u32, holds: bool) {
        let reasons = &self.sampling.reasons;
        match holds {
            true => reasons.fetch_or(reason, Ordering::SeqCst),
            false => reasons.fetch_and(!reason, Ordering::SeqCst),
        };
        self.settle_direct();
    }

    /// Whether requests are served unseen, as it should be: somebody outside of this process may have rung.
    pub fn settle_direct(&self) {
        // Two threads may be at this: the last one that set something saw all.
        loop {
            let reasons = self.sampling.reasons.load(Ordering::SeqCst);
            let (is_scoped, counts) = (reasons & SCOPED != 0, reasons & !SCOPED != 0);
            self.sampling.counts_each.store(counts, Ordering::Relaxed);
            self.sampling.counts_in_sequence.store(counts && !is_scoped, Ordering::Relaxed);
            if self.front.is_on() {
                self.front.set_scope(if is_scoped && !counts { O::offset_of_heap() } else { 0 });
                self.front.set_direct(reasons == 0);
            }
            if reasons == self.sampling.reasons.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Counts a request of `bytes` that came to the slow path; true where it is to be a sample.
    #[inline]
    pub fn sample_is_due(&self, bytes: usize) -> bool {
        self.count_request(bytes) == Counted::Sample
    }

    /// Counts a request of `bytes` that came to the slow path.
    #[inline]
    pub fn count_request(&self, bytes: usize) -> Counted {
        self.sampling.counted(self.slot(), bytes)
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
    fn looks_around_on_the_way_change_no_interval() {
        for look in [1, 100, 4096, 1 << 20] {
            let sampling = Sampling::new();
            sampling.set_mean(100_000);
            sampling.look.store(look, Ordering::Relaxed);
            sampling.reasons.store(LOOKS, Ordering::Relaxed);
            let samples = (0..1_000_000).filter(|_| sampling.count(0, 1000)).count() as f64;
            let expected = 1_000_000.0 * crate::base::chance::sampled_chance(1000, 100_000);
            assert!((samples / expected - 1.0).abs() < 0.05, "{look}: {samples}, not {expected}");
            let left = sampling.cells[0].left.load(Ordering::Relaxed);
            assert!(left <= look as i64, "{left} of {look}");
        }
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
