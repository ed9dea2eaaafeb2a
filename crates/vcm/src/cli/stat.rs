//! The arguments of `vcm stat`.

use clap::Args;
use std::time::Duration;

const STAT_EXAMPLES: &str = "\
Examples:
  vcm stat ceph-osd                        memory of the only ceph-osd process
  vcm stat 4711 -i 1                       one line per second, until Ctrl-C or the end of the process
  vcm stat 4711 -i 0.5 --count 10 --json   ten JSON objects, one per line

vcm reads the memory of the process and runs nothing in it, so a stopped process is readable too.
With -i, counting pages takes at most 0.1 % of the time. 'pages' is the age of that count, 'apart' marks
a count that no longer fits the rest, 'torn' marks counters that changed while vcm read them.
Requires root, or the same user with kernel.yama.ptrace_scope 0.

Exit status:
  0  shown, also if ended by Ctrl-C
  1  not readable: no such process, no permission, not on vcmalloc; or the process ended
  2  wrong arguments
  128+N  ended by signal N, such as SIGHUP of a closed terminal";

/// Show the memory of a running process, from live bytes to RSS.
#[derive(Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct Stat {
    /// Process on vcmalloc: its id, or its name if unique
    #[arg(value_name = "PID|NAME")]
    pub target: String,
    /// Print one line every SECONDS
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Stop after N lines
    #[arg(long, value_name = "N", requires = "interval", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("give seconds from 0.01 to 86400")
}
