//! The load program: one pattern in one process, on whatever allocator answers `malloc` there.
//!
//! Owns the patterns and the threads they run on; promises that the calls, their sizes and their order are
//! the same under every allocator (same seeds), and that its own tables do not come from the heap that is
//! measured.

pub mod c_heap;
pub mod crew;
mod exchange;
mod mapped;
pub mod patterns;
pub mod process;
mod queue;
pub(crate) mod random;
pub(crate) mod signal;
pub mod sized;

use crate::report::Report;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use crew::{Length, Work, Workload};
use patterns::buffers::Buffers;
use patterns::fast_path::{self, Order};
use patterns::{
    beside, churn, false_sharing, growth, hand_over, large, mixed_life, slots, small, steps, storage, timed,
};
use std::time::Duration;

/// The pattern to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Pattern {
    /// malloc, free: nothing else live
    Pair,
    /// malloc, free: among 1,000 live blocks
    PairLive,
    /// 32 mallocs, 32 frees, last first
    BatchLifo,
    /// 1,000 mallocs, 1,000 frees, first first
    BatchFifo,
    /// 1,000 mallocs, 1,000 frees, shuffled
    BatchRandom,
    /// 16 B to 4 KiB replaced at random among 1,024
    Mixed,
    /// calloc, free
    Zeroed,
    /// posix_memalign to 4 KiB, free
    PageAligned,
    /// slots of 4 to 64 KiB, handed on between generations of threads
    Starve,
    /// slots of 8 to 1,000 bytes, handed on between generations of threads
    Larson,
    /// producers allocate, consumers free
    Prodcons,
    /// requests of a storage daemon: messengers allocate, op threads free
    Storage,
    /// buffers of 64 KiB to 16 MiB, 32 in flight
    Large,
    /// 16 B to 4 KiB, most die young, few live long
    Mixedlife,
    /// blocks of different threads on one cache line
    FalseActive,
    /// blocks of one thread freed and reused by others
    FalsePassive,
    /// buffers that grow to 256 KiB
    Realloc,
    /// buffers of 64 KiB to 64 MiB: malloc, write, free
    BufferFresh,
    /// buffers that grow to 64 MiB, by half at a time
    BufferHalves,
    /// buffers that grow to 4 MiB, by 4 KiB
    BufferPages,
    /// buffers that grow to 16 MiB, by 64 KiB
    BufferSteps,
    /// strings of 64 KiB to 16 MiB whose room doubles, cut to their length
    BufferStrings,
    /// buffers of eight sizes from 64 KiB to 30 MiB in turn
    BufferTurns,
    /// each call timed: 16 B to 1 KiB replaced at random
    TimedSmall,
    /// each call timed: 16 B to 256 KiB
    TimedMixed,
    /// each call timed: 4 KiB to 4 MiB
    TimedLarge,
    /// each call timed: 16 B to 256 KiB, while 10 GiB (--bytes) are taken and go back, again and again
    TimedBeside,
    /// threads that hardly live (20,000 unless --operations or --seconds says otherwise)
    Churn,
    /// a process that holds 2 MiB: its resident memory
    Small,
    /// the target of `vcm-bench instructions`
    #[value(hide = true)]
    Steps,
}

/// The work of a pattern: one thread, threads whose calls are timed, or a crew of threads.
enum Kind {
    Steps,
    Small,
    FastPath(Order),
    Timed(fn() -> timed::Timed),
    /// As `TimedMixed`, beside a thread that takes and frees much.
    Beside,
    Crew(fn(&Settings) -> Work),
}

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub pattern: Pattern,
    pub threads: usize,
    pub length: Length,
    /// The block size, for patterns that have one.
    pub bytes: Option<usize>,
}

impl Settings {
    fn run(&self, workload: impl Workload) -> Work {
        crew::run(workload, self.threads as u32, self.length)
    }

    fn seconds(&self) -> Result<f64> {
        match self.length {
            Length::Time(time) => Ok(time.as_secs_f64()),
            Length::Operations(..) => anyhow::bail!(
                "the fast-path patterns choose their own number of operations; give --seconds instead of --operations"
            ),
        }
    }
}

impl Pattern {
    /// The work of each pattern.
    fn work(self) -> Kind {
        match self {
            Self::Pair => Kind::FastPath(Order::Pair),
            Self::PairLive => Kind::FastPath(Order::PairAmongLive),
            Self::BatchLifo => Kind::FastPath(Order::BatchLifo),
            Self::BatchFifo => Kind::FastPath(Order::BatchFifo),
            Self::BatchRandom => Kind::FastPath(Order::BatchRandom),
            Self::Mixed => Kind::FastPath(Order::Mixed),
            Self::Zeroed => Kind::FastPath(Order::Zeroed),
            Self::PageAligned => Kind::FastPath(Order::PageAligned),
            Self::Starve => Kind::Crew(|with| with.run(slots::Slots::starve(with.threads))),
            Self::Larson => Kind::Crew(|with| with.run(slots::Slots::larson(with.threads))),
            Self::Prodcons => Kind::Crew(|with| {
                let bytes = with.bytes.unwrap_or(hand_over::DEFAULT_BYTES);
                with.run(hand_over::HandOver::new(with.threads, bytes))
            }),
            Self::Storage => Kind::Crew(|with| with.run(storage::Storage::new(with.threads))),
            Self::Large => Kind::Crew(|with| with.run(large::Large::new(with.threads, with.bytes))),
            Self::Mixedlife => Kind::Crew(|with| with.run(mixed_life::MixedLife::new(with.threads))),
            Self::FalseActive => Kind::Crew(|with| with.run(false_sharing::FalseSharing::active())),
            Self::FalsePassive => {
                Kind::Crew(|with| with.run(false_sharing::FalseSharing::passive(with.threads)))
            }
            Self::Realloc => Kind::Crew(|with| with.run(growth::Growth::new(with.threads))),
            Self::BufferFresh => Kind::Crew(|with| with.run(Buffers::Fresh)),
            Self::BufferHalves => Kind::Crew(|with| with.run(Buffers::ByHalves)),
            Self::BufferPages => Kind::Crew(|with| with.run(Buffers::ByPages)),
            Self::BufferSteps => Kind::Crew(|with| with.run(Buffers::BySteps)),
            Self::BufferStrings => Kind::Crew(|with| with.run(Buffers::Strings)),
            Self::BufferTurns => Kind::Crew(|with| with.run(Buffers::InTurn)),
            Self::TimedSmall => Kind::Timed(timed::Timed::small),
            Self::TimedMixed => Kind::Timed(timed::Timed::mixed),
            Self::TimedLarge => Kind::Timed(timed::Timed::large),
            Self::TimedBeside => Kind::Beside,
            Self::Churn => Kind::Crew(|with| with.run(churn::Churn::new(with.threads))),
            Self::Small => Kind::Small,
            Self::Steps => Kind::Steps,
        }
    }

    /// The order of calls, for the patterns that time pairs on one thread.
    pub fn fast_path_order(self) -> Option<Order> {
        match self.work() {
            Kind::FastPath(order) => Some(order),
            _ => None,
        }
    }

    /// The name as it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// How long it works if nobody says.
    pub fn default_length(self) -> Length {
        match self {
            Self::Churn => Length::Operations(churn::DEFAULT_THREADS, None),
            _ => Length::Time(Duration::from_secs(1)),
        }
    }

    /// Operations that stand for a second of work, for patterns that a comparison runs by work: each of their
    /// threads has a heap's load of its own, and an allocator whose locks let most threads starve would look
    /// fast and lean by the clock. About what the fastest does on two CPUs.
    pub fn operations_for_a_second(self) -> Option<u64> {
        match self {
            Self::Mixedlife => Some(60_000_000),
            Self::Realloc => Some(6_000_000),
            // One buffer after the other: by the clock who is slow would be measured at other sizes.
            Self::BufferFresh => Some(4_000),
            Self::BufferHalves => Some(1_200),
            Self::BufferPages => Some(2_000_000),
            Self::BufferSteps => Some(100_000),
            Self::BufferStrings => Some(12_000),
            Self::BufferTurns => Some(20_000),
            _ => None,
        }
    }

    /// Half of the threads give to the other half.
    pub fn works_in_pairs(self) -> bool {
        matches!(self, Self::Prodcons | Self::Storage)
    }

    fn is_single_threaded(self) -> bool {
        matches!(self.work(), Kind::Small | Kind::Steps | Kind::FastPath(_))
    }
}

/// Runs one pattern in this process and reports.
pub fn run(settings: &Settings) -> Result<Report> {
    check(settings)?;
    let machine_before = process::machine_ns();
    let mut report = Report {
        pattern: settings.pattern.name(),
        malloc_object: c_heap::malloc_object(),
        threads: settings.threads,
        bytes: settings.bytes,
        start_rss_kib: process::resident_kib(),
        ..Report::default()
    };
    match settings.pattern.work() {
        Kind::Steps => report.operations = steps::run(settings.bytes.unwrap_or(64))?,
        Kind::Small => fill_in(&mut report, run_small()),
        Kind::FastPath(order) => run_fast_path(order, settings, &mut report)?,
        Kind::Timed(timed) => run_timed(timed(), settings, &mut report),
        Kind::Beside => {
            beside::start(settings.bytes.unwrap_or(beside::BYTES));
            run_timed(timed::Timed::mixed(), settings, &mut report);
        }
        Kind::Crew(run) => fill_in(&mut report, run(settings)),
    }
    report.peak_rss_kib = report.peak_rss_kib.max(process::peak_resident_kib());
    report.after_rss_kib = process::resident_kib();
    report.machine_ns = machine_before.min(process::machine_ns());
    Ok(report)
}

pub const MOST_THREADS: usize = 65_536;

fn check(settings: &Settings) -> Result<()> {
    let Settings { pattern, threads, bytes, .. } = *settings;
    let name = pattern.name();
    ensure!((1..=MOST_THREADS).contains(&threads), "--threads {threads} is not between 1 and 65,536");
    if pattern.is_single_threaded() {
        ensure!(threads == 1, "`{name}` runs on one thread; leave --threads out");
    }
    if pattern.works_in_pairs() {
        ensure!(threads.is_multiple_of(2), "`{name}` works in pairs; give an even number of --threads");
    }
    ensure!(bytes != Some(0), "a block has at least one byte; give --bytes 1 or more");
    Ok(())
}

fn run_fast_path(order: Order, settings: &Settings, report: &mut Report) -> Result<()> {
    let bytes = if order == Order::Mixed { 0 } else { *report.bytes.get_or_insert(64) };
    let start = process::Moment::now();
    let times = fast_path::measure(order, bytes, settings.seconds()?);
    let elapsed = start.until(process::Moment::now());
    let end_rss_kib = process::resident_kib();
    fill_in(report, Work { operations: times.pairs, elapsed, end_rss_kib });
    report.pair_ns_minimum = Some(times.minimum);
    report.pair_ns_median = Some(times.median);
    Ok(())
}

fn run_timed(timed: timed::Timed, settings: &Settings, report: &mut Report) {
    let timed: &'static timed::Timed = Box::leak(Box::new(timed));
    fill_in(report, settings.run(timed));
    report.calls = Some(timed.calls());
}

fn run_small() -> Work {
    let start = process::Moment::now();
    let process = small::SmallProcess::allocate();
    let elapsed = start.until(process::Moment::now());
    let work = Work { operations: process.count(), elapsed, end_rss_kib: process::resident_kib_exact() };
    process.release();
    work
}

fn fill_in(report: &mut Report, work: Work) {
    report.operations = work.operations;
    report.wall_seconds = work.elapsed.wall;
    report.cpu_user_seconds = work.elapsed.user;
    report.cpu_system_seconds = work.elapsed.system;
    report.operations_per_cpu_second =
        vcm_measure::statistics::ratio(work.operations as f64, report.cpu_seconds()).unwrap_or_default();
    report.end_rss_kib = work.end_rss_kib;
}
