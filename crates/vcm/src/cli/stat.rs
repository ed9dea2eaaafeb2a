//! The arguments of `vcm stat`.

use clap::Args;
use std::time::Duration;

const STAT_EXAMPLES: &str = "\
Examples:
  vcm stat ceph-osd                        where the memory of the only ceph-osd is
  vcm stat 4711 -i 1                       a line a second, until Ctrl-C or its end
  vcm stat 4711 -i 0.5 --count 10 --json   ten objects, a line each

It reads the memory of the process and runs nothing in it: a stopped one is seen too.
With -i, pages are counted only so often that this takes 0.1 % of the time at most: 'pages'
says how long ago that was, 'apart' that they do not fit the rest any more, 'torn' that the
counters moved while they were read.
Reading it takes root, or the same user where kernel.yama.ptrace_scope is 0.

Exit status:
  0  shown, also where Ctrl-C ended it
  1  the process cannot be seen: gone, not allowed, not on vcmalloc; or it ended meanwhile
  2  wrong arguments
  128+N  ended by signal N, such as SIGHUP of a closed terminal";

/// Show where the memory of a running process is, from its live bytes to its RSS.
#[derive(Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct Stat {
    /// A process on vcmalloc, by its number or by a name that only one has
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// Look again after so many seconds, a line each
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Stop after so many looks
    #[arg(long, value_name = "N", requires = "interval", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, an object for each look
    #[arg(long)]
    pub json: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("write seconds from 0.01 to 86400")
}
