//! The arguments of `vcm profile`.

use clap::{ArgGroup, Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use vcm_profile::Measure;
use vcmalloc_core::options;

const PROFILE_EXAMPLES: &str = "\
Examples:
  vcm profile ceph-osd                     what is allocated within 30 seconds and stays, by call site
  vcm profile 4711 --for 5m -o leak.pb.gz  five minutes; then: go tool pprof leak.pb.gz
  vcm profile 4711 --allocated --for 10s --flamegraph churn.html
  vcm profile -- ./program --its-argument  a program from its start to its end
  vcm profile --diff before.pb.gz after.pb.gz

A profile that was off is switched on for that time and off again, by Ctrl-C too; one that was on stays on.
Where it was on, --live, --peak and --pinned show at once what there is. Nothing of this runs in the process.

Exit status:
  0  shown and written; with a command: the command's own, 128+N where signal N killed it
  1  not possible: the process is gone, not allowed, not on vcmalloc, stopped, too old; or a file is not written
  2  wrong arguments
  125  with a command: no profile could be taken or written; 126, 127: the command cannot be started
  128+N  signal N (not Ctrl-C) ended vcm before the time; the profile was switched off again";

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
    /// A process on vcmalloc, by its number or by a name that only one has
    #[arg(value_name = "PID|NAME")]
    pub target: Option<String>,
    /// How long to look [default: 30s; where the profile was on already: at once, but for --allocated]
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "diff")]
    pub length: Option<Duration>,
    /// What is in use of what was allocated since the profile began (the default)
    #[arg(long)]
    pub live: bool,
    /// All that is allocated meanwhile
    #[arg(long)]
    pub allocated: bool,
    /// What was in use when most was
    #[arg(long)]
    pub peak: bool,
    /// Memory that cannot go back because blocks of a call site lie in it: an estimate
    #[arg(long)]
    pub pinned: bool,
    /// Write the profile to a file, for pprof; '-' for standard output, without the table
    #[arg(short, long, value_name = "FILE", conflicts_with = "diff")]
    pub output: Option<PathBuf>,
    /// What FILE is to be
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Pprof, requires = "output")]
    pub format: Format,
    /// Write a flame graph, a page for any browser that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub flamegraph: Option<PathBuf>,
    /// Compare two saved profiles: what grew, the largest first
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    pub diff: Option<Vec<PathBuf>>,
    /// Take a sample in so many bytes, such as 64K [default: the process's option sample_interval, 512K]
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "diff")]
    pub interval: Option<u64>,
    /// Call sites to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub rows: usize,
    /// Show all calls of each stack
    #[arg(long)]
    pub stacks: bool,
    /// The command to start on vcmalloc, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Compressed, for Go's pprof and all that read its format
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
    const WANTED: &str = "write a time such as 30s or 5m, from 0 to a day";
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86400.0).contains(seconds));
    let time = match seconds {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None => humantime::parse_duration(text).map_err(|_| WANTED)?,
    };
    if time <= Duration::from_secs(86400) { Ok(time) } else { Err(WANTED) }
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    let bytes = options::bytes(text.as_bytes()).filter(|bytes| (1..=1 << 40).contains(bytes));
    bytes.ok_or("write bytes such as 64K, from 1 to 1T")
}

fn rows(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or("write a number from 1 on")
}
