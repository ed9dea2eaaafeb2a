//! The arguments of `vcm replay`.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vcm replay osd.vct                                 on each allocator that is found, as fast as it goes
  vcm replay osd.vct --allocators glibc,vcmalloc,./mine.so --repeat 9
  vcm replay osd.vct --paced                         at the recorded times: what comes back while it idles
  vcm replay osd.vct --paced --speed 4 --json
  vcm replay osd.vct --rest 10s                      what comes back when the trace has ended
  vcm replay osd.vct --html report.html

Allocators: as for 'vcm compare'. The first is what the others are compared with.

Exit status:
  0    replayed, whether a difference was shown or not
  1    the trace cannot be read, or was cut off (what is there is replayed); or an allocator was left out: missing, not
       really used, crashed, hung or out of memory
  2    wrong arguments
  130  stopped by a signal; rounds that had finished are reported";

/// Replay a trace of allocations on each allocator, in turns, and say which differences are shown.
///
/// Each thread of the trace is a thread, with its own order; a block is freed after it was allocated, whoever frees it.
/// Every allocator has a process of its own. What replaying itself costs is measured with a heap that does nothing,
/// and taken off.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// The trace ('vcm trace import' makes one)
    pub file: PathBuf,
    /// Allocators by name or path; without it those that are found
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allocators: Vec<String>,
    /// As fast as it goes: time in the allocator; this is what is done without --paced
    #[arg(long, conflicts_with_all = ["paced", "speed"])]
    pub asap: bool,
    /// At the recorded times
    #[arg(long)]
    pub paced: bool,
    /// Paced, so many times as fast as it was recorded
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    pub speed: Option<f64>,
    /// How long all threads rest after the trace; their memory is read after 1, 5, 10, 30 and 60 s and at the end
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub rest: Duration,
    /// Rounds; in each every allocator runs once
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// How long any part of a run may take beyond its time
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// The vcmalloc to replay on, instead of the one that is found by itself
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Print JSON: every value, and the memory over the time of the trace
    #[arg(long)]
    pub json: bool,
    /// Write a report, a page for any browser that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "a number such as 4 or 0.5".to_owned())?;
    if (0.001..=1e6).contains(&speed) { Ok(speed) } else { Err("from 0.001 to 1000000".to_owned()) }
}
