//! The memory that a process has, page by page: the part of a look that costs, so it can be kept for later looks.
//!
//! The kernel goes through all page tables for it, some milliseconds for a GiB. How long a look took of our own time is
//! known, and a tool that looks again and again takes it only so often that it stays a small share of the time.

use super::counters::Counters;
use super::memory::Memory;
use super::residence::{self, Residence};
use crate::process::Process;
use std::io;
use std::time::{Duration, Instant};

/// Looks at pages may take one part in so many of the time, and of the time that the process itself has run.
const ONE_IN: u32 = 1000;
/// Those of a process that does nothing take so many times less.
const AT_REST: u32 = 10;
/// Two figures are of one moment where they differ by at most one part in so many.
const TOLERANCE: u64 = 50;

/// The whole process, as the kernel counts it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Resident {
    pub rss: u64,
    pub anonymous: u64,
    pub swapped: u64,
}

/// The page tables' figures of the process at one moment, and the kernel's running counts then. The latter are off by
/// some pages for each thread or processor, so only their change is added.
#[derive(Clone, Copy)]
struct Base {
    exact: Resident,
    running: Resident,
}

impl Base {
    /// Goes through all page tables, as long as counting the heap's pages takes.
    fn of(process: &Process, memory: &Memory) -> Option<Base> {
        let lines = process.rollup().ok()?;
        let [rss, anonymous, swapped] = ["Rss", "Anonymous", "Swap"].map(|name| lines.bytes(name));
        let exact = Resident { rss: rss?, anonymous: anonymous?, swapped: swapped.unwrap_or(0) };
        Some(Base { exact, running: running(process, memory)? })
    }

    fn moved_to(&self, now: &Resident) -> Resident {
        let moved = |exact: u64, then: u64, now: u64| exact.saturating_add(now).saturating_sub(then);
        Resident {
            rss: moved(self.exact.rss, self.running.rss, now.rss),
            anonymous: moved(self.exact.anonymous, self.running.anonymous, now.anonymous),
            swapped: moved(self.exact.swapped, self.running.swapped, now.swapped),
        }
    }
}

/// The kernel's running counts.
fn running(process: &Process, memory: &Memory) -> Option<Resident> {
    let lines = process.status_lines().ok()?;
    let [anonymous, swapped] = ["RssAnon", "VmSwap"].map(|name| lines.bytes(name));
    Some(Resident { rss: memory.rss()?, anonymous: anonymous?, swapped: swapped? })
}

#[derive(Clone)]
pub struct Pages {
    pub heap: Residence,
    pub process: Option<Resident>,
    base: Option<Base>,
    /// RSS then, as the kernel tells it for nothing.
    rss: Option<u64>,
    taken: Instant,
    cost: Duration,
    /// How long the process had run by then.
    worked: Option<Duration>,
    /// RSS moved while they were counted.
    moved: bool,
    /// They are to do for now, whatever their age.
    pub held: bool,
}

impl Pages {
    /// `former`: what was counted before, of the same process.
    pub fn count(
        process: &Process,
        memory: &Memory,
        counters: &Counters,
        former: Option<&Pages>,
    ) -> io::Result<Pages> {
        let (before, began) = (memory.rss(), own_time());
        let heap = if counters.is_started() {
            residence::of(process, memory, counters)?
        } else {
            Residence::default()
        };
        let base = former.and_then(|former| former.base);
        let moved = base.and_then(|base| Some(base.moved_to(&running(process, memory)?)));
        let base = if moved.is_some() { base } else { Base::of(process, memory) };
        let rss = memory.rss();
        Ok(Pages {
            heap,
            process: moved.or(base.map(|base| base.exact)),
            base,
            rss,
            taken: Instant::now(),
            cost: own_time().saturating_sub(began),
            worked: time_of(process),
            moved: is_apart(before, rss),
            held: false,
        })
    }

    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    /// Whether they may be counted again without costing too much.
    pub fn are_due(&self, process: &Process, memory: &Memory) -> bool {
        let enough = self.cost * ONE_IN;
        let worked = || Some(time_of(process)?.saturating_sub(self.worked?));
        // The questions that cost nothing come first.
        !self.held
            && self.age() >= enough
            && (self.age() >= enough * AT_REST
                || is_apart(self.rss, memory.rss())
                || worked().is_none_or(|worked| worked >= enough))
    }

    /// The process now, as far as it is told for nothing, and whether it is still what the pages say.
    pub fn process_now(&self, memory: &Memory) -> (Option<Resident>, bool) {
        let now = memory.rss();
        let moved_by = |rss: u64| match (self.rss, now) {
            (Some(then), Some(now)) => rss.saturating_add(now).saturating_sub(then),
            _ => rss,
        };
        let whole = self.process.map(|all| Resident { rss: moved_by(all.rss), ..all });
        (whole, self.moved || is_apart(self.rss, now))
    }
}

fn is_apart(before: Option<u64>, after: Option<u64>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if !is_near(before, after, after))
}

/// Whether two sums differ by no more than is tolerated of the whole.
pub fn is_near(one: u64, other: u64, whole: u64) -> bool {
    one.abs_diff(other) <= whole / TOLERANCE
}

/// Time that this thread has run: waiting for a processor is no cost.
fn own_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// Time that the process has run on all processors.
fn time_of(process: &Process) -> Option<Duration> {
    let mut id = 0;
    // SAFETY: the place is our own.
    let error = unsafe { libc::clock_getcpuclockid(process.id, &raw mut id) };
    if error == 0 { clock(id) } else { None }
}

fn clock(id: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is our own.
    let error = unsafe { libc::clock_gettime(id, &raw mut time) };
    (error == 0).then(|| Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_again_when_their_cost_is_a_small_part_of_the_time() {
        let now = Instant::now();
        let own = Process::new(std::process::id() as i32);
        let memory = Memory::of(&own).unwrap();
        let worked = time_of(&own).unwrap();
        let taken = |ago: u64, cost: u64| Pages {
            heap: Residence::default(),
            process: None,
            base: None,
            rss: memory.rss(),
            taken: now - Duration::from_millis(ago),
            cost: Duration::from_millis(cost),
            worked: Some(worked),
            moved: false,
            held: false,
        };
        let is_due = |pages: Pages| pages.are_due(&own, &memory);
        assert!(is_due(taken(0, 0)));
        assert!(!is_due(Pages { held: true, ..taken(0, 0) }));
        assert!(!is_due(taken(25_000, 50)));
        // Long enough, but it has done nothing since.
        assert!(!is_due(taken(50_000, 50)));
        assert!(is_due(taken(500_000, 50)));
        let rss = memory.rss().map(|rss| rss * 2);
        assert!(is_due(Pages { rss, ..taken(50_000, 50) }), "its memory has come or gone");
        let (cost, worked) = (Duration::from_micros(1), worked.checked_sub(Duration::from_millis(2)));
        assert!(is_due(Pages { cost, worked, ..taken(5, 0) }), "it has worked");
    }

    #[test]
    fn what_running_counts_are_off_by_is_left_out() {
        let resident = |rss, anonymous, swapped| Resident { rss, anonymous, swapped };
        let base = Base { exact: resident(1000, 700, 0), running: resident(990, 705, 0) };
        assert_eq!(base.moved_to(&resident(1090, 805, 30)), resident(1100, 800, 30));
        assert_eq!(base.moved_to(&resident(0, 0, 0)), resident(10, 0, 0));
    }

    #[test]
    fn two_per_cent_are_near_and_more_is_not() {
        assert!(is_near(98, 100, 100) && is_near(102, 100, 100));
        assert!(!is_near(97, 100, 100) && !is_near(103, 100, 100));
        assert!(is_apart(Some(100), Some(200)) && !is_apart(None, Some(200)));
    }
}
