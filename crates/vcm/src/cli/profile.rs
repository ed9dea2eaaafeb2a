//! The arguments of `vcm profile`.

use clap::{ArgGroup, Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use vcm_profile::Measure;
use vcmalloc_core::options;

const PROFILE_EXAMPLES: &str = "\
Examples:
  vcm profile ceph-osd                     memory allocated within 30 seconds and still live, by call site
  vcm profile 4711 --for 5m -o leak.pb.gz  five minutes; then: go tool pprof leak.pb.gz
  vcm profile 4711 --allocated --for 10s --flamegraph churn.html
  vcm profile -- ./program --its-argument  a program from start to end
  vcm profile --diff before.pb.gz after.pb.gz

vcm switches the profile on for this time and off again, also on Ctrl-C; a profile that was on stays on.
For a profile that was on, --live, --peak and --pinned show the current state at once. No code runs in the process.

Exit status:
  0  shown and written; with a command: that of the command, 128+N if signal N killed it
  1  not possible: no such process, no permission, not on vcmalloc, stopped, too old; or a file cannot be written
  2  wrong arguments
  125  with a command: no profile could be taken or written; 126, 127: the command cannot be started
  128+N  signal N (not Ctrl-C) ended vcm early; the profile was switched off again";

/// Show which call sites allocate, hold or pin the memory of a process.
#[derive(Args)]
#[command(after_help = PROFILE_EXAMPLES)]
#[command(
    override_usage = "vcm profile [OPTIONS] PID|NAME\n       vcm profile [OPTIONS] -- COMMAND [ARG]...\n       \
                            vcm profile [OPTIONS] --diff BEFORE AFTER"
)]
#[command(group = ArgGroup::new("what").args(["target", "command", "diff"]).required(true))]
#[command(group = ArgGroup::new("measure").args(["live", "allocated", "peak", "pinned"]))]
pub struct Profile {
    /// Process on vcmalloc: its id, or its name if unique
    #[arg(value_name = "PID|NAME")]
    pub target: Option<String>,
    /// Duration [default: 30s; 0 if the profile was already on, except with --allocated]
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "diff")]
    pub length: Option<Duration>,
    /// Memory allocated since the profile began and still live (the default)
    #[arg(long)]
    pub live: bool,
    /// All allocations during this time
    #[arg(long)]
    pub allocated: bool,
    /// Live memory at the peak
    #[arg(long)]
    pub peak: bool,
    /// Free memory that live blocks of a call site keep from being released (estimate)
    #[arg(long)]
    pub pinned: bool,
    /// Only memory that lives in tenants' heaps of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["allocated", "peak", "pinned", "diff", "command"])]
    pub heap: Option<String>,
    /// Write the profile to a file, for pprof; '-': to standard output, without the table
    #[arg(short, long, value_name = "FILE", conflicts_with = "diff")]
    pub output: Option<PathBuf>,
    /// Format of FILE
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Pprof, requires = "output")]
    pub format: Format,
    /// Write a flame graph as an HTML page that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub flamegraph: Option<PathBuf>,
    /// Compare two saved profiles, largest growth first
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    pub diff: Option<Vec<PathBuf>>,
    /// Mean bytes between samples, such as 64K [default: option sample_interval of the process, 512K]
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "diff")]
    pub interval: Option<u64>,
    /// Number of call sites to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub rows: usize,
    /// Show all frames of each stack
    #[arg(long)]
    pub stacks: bool,
    /// The command to start on vcmalloc, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Compressed, for Go's pprof and other readers of its format
    Pprof,
    /// Text, for google-pprof of gperftools
    Gperftools,
}

impl Profile {
    pub fn measure(&self) -> Measure {
        match (self.allocated, self.peak, self.pinned) {
            (true, ..) => Measure::Allocated,
            (_, true, _) => Measure::Peak,
            (.., true) => Measure::Pinned,
            _ => Measure::Live,
        }
    }
}

fn time(text: &str) -> Result<Duration, &'static str> {
    const WANTED: &str = "give a time from 0 to one day, such as 30s or 5m";
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86400.0).contains(seconds));
    let time = match seconds {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None => humantime::parse_duration(text).map_err(|_| WANTED)?,
    };
    if time <= Duration::from_secs(86400) { Ok(time) } else { Err(WANTED) }
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    let bytes = options::bytes(text.as_bytes()).filter(|bytes| (1..=1 << 40).contains(bytes));
    bytes.ok_or("give bytes from 1 to 1T, such as 64K")
}

fn rows(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or("give a number of at least 1")
}
