//! The arguments of `vcm check`.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

const CHECK_EXAMPLES: &str = "\
Examples:
  vcm check redis-server                   does this service of systemd allocate on vcmalloc now?
  vcm check $(pidof redis-server)          do these processes?
  vcm check 1                              in a container: a health check
  vcm check -- ceph-osd -v                 would it, started from here? Before the daemon itself
  vcm run -- vcm check -- ./daemon --help  what 'vcm run' would come to

A service is judged by its main process, when that has run for two seconds; of one that does not come up it says so, and the
line that leads back.

With a command nothing is added: LD_PRELOAD is what it is here. Take a command that ends by itself; what
still runs when the time is over is judged and ended.

Exit status:
  0  every process and service named, or the command, allocates on vcmalloc
  1  it does not, or only in part
  2  it cannot be told: no such process, service or command, a service that does not run, no right to look, wrong arguments";

/// A process, or a service by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Process(i32),
    Unit(String),
}

fn target(text: &str) -> Result<Target, &'static str> {
    match text.parse::<i32>() {
        Ok(id) if id > 0 => Ok(Target::Process(id)),
        Ok(_) => Err("write a process id, or the name of a service"),
        Err(_) if text.is_empty() => Err("it is empty: write a process id, or the name of a service"),
        Err(_) => Ok(Target::Unit(text.into())),
    }
}

/// Succeed only if a process, a service or a command really allocates on vcmalloc.
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES, override_usage = "vcm check PID|UNIT...\n       vcm check [--within TIME] -- COMMAND [ARG]...")]
pub struct Check {
    /// The processes to look at, or services of systemd
    #[arg(value_name = "PID|UNIT", value_parser = target, required_unless_present = "command")]
    pub targets: Vec<Target>,
    /// How long a command may run before it is judged and ended: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, requires = "command")]
    pub within: Duration,
    /// Say nothing where all is well
    #[arg(short, long)]
    pub quiet: bool,
    /// The command to start, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "targets")]
    pub command: Vec<OsString>,
}
