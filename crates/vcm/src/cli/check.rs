//! What can be typed after `vcm check`.

use super::living_process;
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

const CHECK_EXAMPLES: &str = "\
Examples:
  vcm check $(pidof redis-server)          does it allocate on vcmalloc now?
  vcm check 1                              in a container: a health check
  vcm check -- ceph-osd -v                 would it, started from here? Before the daemon itself
  vcm run -- vcm check -- ./daemon --help  what 'vcm run' would come to

With a command nothing is added: LD_PRELOAD is what it is here. Take a command that ends by itself; what
still runs when the time is over is judged and ended.

Exit status:
  0  every process named, or the command, allocates on vcmalloc
  1  it does not, or only in part
  2  it cannot be told: no such process or command, no right to look, wrong arguments";

/// Succeed only if a process, or a command, really allocates on vcmalloc.
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES, override_usage = "vcm check PID...\n       vcm check [--within TIME] -- COMMAND [ARG]...")]
pub struct Check {
    /// The processes to look at
    #[arg(value_name = "PID", value_parser = living_process, required_unless_present = "command")]
    pub processes: Vec<i32>,
    /// How long a command may run before it is judged and ended: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, requires = "command")]
    pub within: Duration,
    /// Say nothing where all is well
    #[arg(short, long)]
    pub quiet: bool,
    /// The command to start, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "processes")]
    pub command: Vec<OsString>,
}
