//! Decay: how long idle memory waits before it goes back, longer while the program shows that it wants it again
//! soon.
//!
//! Each page that comes into use shortly after it was released cost a system call, a page fault and 4 KiB
//! of zeros for nothing. If that happens to a notable part of what goes, the delay doubles; when it has not
//! happened for some time, the delay halves. A program that stops working, or that works much less than it
//! did, gets the plain delay at once: its promise about idle memory holds whatever was learned under load.

use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use crate::base::ticks::{AtomicTick, Tick, Ticks};

/// The delay doubles at most so many times.
const MOST_DOUBLINGS: u32 = 5;
/// So many ticks after it was released memory may come into use again without reproach: it was worth it.
const SOON_TICKS: Ticks = Ticks(128);
/// Below these bytes nothing is learned.
const LEAST_BYTES: u64 = 256 << 10;
/// The delay is too short where this part of what was released came back.
const PART: u64 = 4;
/// The bytes released, and those that came back, are forgotten by this part a tick.
const MEMORY: u64 = 64;
/// The delay halves when nothing came back too soon for so many delays.
const CALM_DELAYS: u32 = 4;
/// A program that does less than this part of what it did rests.
const REST_PART: u64 = 16;
/// It must do so for as many ticks, which leaves as many again for its memory to go within twice the delay.
const REST_TICKS: u32 = 4;

/// The delay as it was learned. One thread at a time calls `note`; others may read.
pub struct Decay {
    doublings: AtomicU32,
    /// The tick of the last change: memory released before says nothing about the delay as it is now.
    changed_at: AtomicTick,
    rested: AtomicU32,
    busiest: AtomicU64,
    work_seen: AtomicU64,
    released: AtomicU64,
    came_back: AtomicU64,
    came_back_seen: AtomicU64,
}

/// The figures that a tick saw. Sums since the start, unless named otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub now: Tick,
    /// Something happened since the last tick.
    pub rung: bool,
    /// Slow paths that caches took.
    pub work: u64,
    /// Bytes released by the last tick.
    pub released: u64,
    /// Bytes that came back too soon.
    pub came_back: u64,
    pub delay: Ticks,
}

impl Decay {
    pub const fn new() -> Self {
        Decay {
            doublings: AtomicU32::new(0),
            changed_at: AtomicTick::new(Tick(0)),
            rested: AtomicU32::new(0),
            busiest: AtomicU64::new(0),
            work_seen: AtomicU64::new(0),
            released: AtomicU64::new(0),
            came_back: AtomicU64::new(0),
            came_back_seen: AtomicU64::new(0),
        }
    }

    /// The delay is longer by this factor, a power of two.
    pub fn factor(&self) -> u32 {
        1 << self.doublings.load(Ordering::Relaxed).min(MOST_DOUBLINGS)
    }

    /// Memory that was released before this tick may come back.
    pub fn too_soon_from(&self, now: Tick) -> Tick {
        let (long_ago, changed_at) = (now.before(SOON_TICKS), self.changed_at.load());
        if changed_at.is_since(long_ago) { changed_at } else { long_ago }
    }

    /// Learns from a tick.
    pub fn note(&self, seen: Seen) {
        let came_back =
            seen.came_back.saturating_sub(self.came_back_seen.swap(seen.came_back, Ordering::Relaxed));
        let (released, came_back) = (sum(&self.released, seen.released), sum(&self.came_back, came_back));
        if self.rests(seen) {
            if self.doublings.load(Ordering::Relaxed) > 0 {
                self.change_to(0, seen.now);
            }
        } else if came_back >= LEAST_BYTES && came_back >= released / PART {
            self.change_to((self.doublings.load(Ordering::Relaxed) + 1).min(MOST_DOUBLINGS), seen.now);
        } else {
            let calm = seen.now.since(self.changed_at.load());
            let doublings = self.doublings.load(Ordering::Relaxed);
            if doublings > 0 && calm >= seen.delay * CALM_DELAYS * self.factor() {
                self.change_to(doublings - 1, seen.now);
            }
        }
    }

    /// In a new process: memory released before may come back.
    pub fn forget(&self, now: Tick) {
        self.busiest.store(0, Ordering::Relaxed);
        self.change_to(0, now);
    }

    fn change_to(&self, doublings: u32, now: Tick) {
        self.doublings.store(doublings, Ordering::Relaxed);
        self.changed_at.store(now);
        self.released.store(0, Ordering::Relaxed);
        self.came_back.store(0, Ordering::Relaxed);
    }

    /// Whether the program has done little for some ticks, by its own measure.
    fn rests(&self, seen: Seen) -> bool {
        let work = seen.work.saturating_sub(self.work_seen.swap(seen.work, Ordering::Relaxed));
        let busiest = self.busiest.load(Ordering::Relaxed);
        let busiest = (busiest - busiest / MEMORY).max(work);
        self.busiest.store(busiest, Ordering::Relaxed);
        let rests = !seen.rung || work < busiest / REST_PART;
        let rested = if rests { self.rested.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.rested.store(rested, Ordering::Relaxed);
        rested >= REST_TICKS
    }
}

/// Adds to a sum that forgets.
fn sum(place: &AtomicU64, more: u64) -> u64 {
    let before = place.load(Ordering::Relaxed);
    let after = (before - before / MEMORY).saturating_add(more);
    place.store(after, Ordering::Relaxed);
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A program: its work in a tick is added up as the heap does.
    struct Program {
        decay: Decay,
        seen: Seen,
    }

    impl Program {
        fn new() -> Self {
            let seen =
                Seen { now: Tick(1000), rung: true, work: 0, released: 0, came_back: 0, delay: Ticks(4) };
            Program { decay: Decay::new(), seen }
        }

        fn tick(&mut self, work: u64, released: u64, came_back: u64) -> u32 {
            let seen = &mut self.seen;
            (seen.now, seen.released) = (seen.now.after(Ticks(1)), released);
            seen.work += work;
            seen.came_back += came_back;
            self.decay.note(self.seen);
            self.decay.factor()
        }
    }

    #[test]
    fn the_delay_grows_while_memory_comes_back_and_has_a_bound() {
        let mut program = Program::new();
        let factors: Vec<u32> = (0..8).map(|_| program.tick(1000, MIB, MIB)).collect();
        assert_eq!(factors, [2, 4, 8, 16, 32, 32, 32, 32]);
        assert_eq!(program.decay.too_soon_from(program.seen.now), program.seen.now);
    }

    #[test]
    fn memory_that_stays_away_changes_nothing() {
        let mut program = Program::new();
        assert!((0..200).all(|_| program.tick(1000, MIB, MIB / 8) == 1), "an eighth of it is wanted again");
        assert!((0..200).all(|_| program.tick(1000, 0, 1000) == 1), "so little is not worth a thought");
    }

    #[test]
    fn the_delay_shrinks_when_nothing_came_back_for_some_delays() {
        let mut program = Program::new();
        (0..2).for_each(|_| _ = program.tick(1000, MIB, MIB));
        let until_less = |program: &mut Program| {
            let before = program.decay.factor();
            (1..1000).find(|_| program.tick(1000, 0, 0) < before)
        };
        assert_eq!((until_less(&mut program), until_less(&mut program)), (Some(64), Some(32)));
        assert_eq!(program.decay.factor(), 1);
    }

    #[test]
    fn a_program_that_stops_or_hardly_works_has_the_plain_delay_within_a_delay() {
        for (rung, work) in [(false, 0), (true, 50)] {
            let mut program = Program::new();
            (0..5).for_each(|_| _ = program.tick(1000, MIB, MIB));
            program.seen.rung = rung;
            let factors: Vec<u32> = (0..4).map(|_| program.tick(work, 0, 0)).collect();
            assert_eq!(factors, [32, 32, 32, 1], "not for a pause of three ticks");
        }
    }

    #[test]
    fn what_went_before_the_last_change_or_long_ago_may_come_back() {
        let decay = Decay::new();
        decay.change_to(1, Tick(1000));
        assert_eq!(
            (decay.too_soon_from(Tick(1010)), decay.too_soon_from(Tick(2000))),
            (Tick(1000), Tick(2000).before(SOON_TICKS))
        );
    }
}
