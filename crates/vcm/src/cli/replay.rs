//! The arguments of `vcm replay`.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vcm replay osd.vct                                 on all allocators found, at full speed
  vcm replay osd.vct --allocators glibc,vcmalloc,./mine.so --repeat 9
  vcm replay osd.vct --paced                         at the recorded times, for memory released while idle
  vcm replay osd.vct --paced --speed 4 --json
  vcm replay osd.vct --rest 10s                      memory released after the trace
  vcm replay osd.vct --html report.html
  vcm replay bricks.vct --paced --tenants            what ends together, in heaps of vcmalloc as well

Allocators: as for 'vcm compare'. The first is the baseline.

Exit status:
  0    replayed, with or without a significant difference
  1    the trace cannot be read, or is truncated (its readable part is replayed); or an allocator was left out:
       missing, not used, crashed, hung or out of memory
  2    wrong arguments
  130  stopped by a signal; finished rounds are reported";

/// Replay a trace of allocations on each allocator in turn and report the significant differences.
///
/// Each thread of the trace runs as a thread, in its recorded order; every free waits for its allocation. Each
/// allocator runs in a separate process. The cost of replaying is measured with an empty heap and subtracted.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// Trace to read ('vcm record' or 'vcm trace import' writes one)
    pub file: PathBuf,
    /// Allocators by name or path [default: all that vcm finds]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allocators: Vec<String>,
    /// Replay at full speed, for time in the allocator (the default)
    #[arg(long, conflicts_with_all = ["paced", "speed"])]
    pub asap: bool,
    /// Replay at the recorded times
    #[arg(long)]
    pub paced: bool,
    /// Replay paced, this many times faster than recorded
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    pub speed: Option<f64>,
    /// Time that all threads rest after the trace; memory is read after 1, 5, 10, 30 and 60 s and at the end
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub rest: Duration,
    /// End at once what the trace ends together: blocks that a later thread frees, which does little else. vcmalloc takes
    /// part a second time, with a heap for each such tenant, whose end frees its blocks
    #[arg(long)]
    pub tenants: bool,
    /// Number of rounds; each runs every allocator once
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Time limit of each part of a run, beyond its recorded time
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// vcmalloc library to replay on [default: the one that vcm finds]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Print JSON: all values, and memory over time
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "give a number such as 4 or 0.5".to_owned())?;
    if (0.001..=1e6).contains(&speed) {
        Ok(speed)
    } else {
        Err("give a number from 0.001 to 1000000".to_owned())
    }
}
