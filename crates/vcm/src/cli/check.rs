//! The arguments of `vcm check`.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;
use vcm_inspect::window;

const CHECK_EXAMPLES: &str = "\
Examples:
  vcm check redis-server                   check a running systemd service; without one, the processes
                                           of this name
  vcm check $(pidof redis-server)          check processes
  vcm check 1                              health check of a container
  vcm check -- ceph-osd -v                 check a command in this environment, before the daemon itself
  vcm run -- vcm check -- ./daemon --help  check the environment of 'vcm run'

The check of a service waits until its main process has run for two seconds. If the service does not start,
vcm prints its state and the command that undoes 'vcm enable'.

A command runs in the current environment: vcm adds nothing to LD_PRELOAD. Choose a command that exits;
one that still runs after --within is checked and terminated. Its own exit code, if not 0, is printed.

Exit status:
  0  all named processes and services, or the command, allocate on vcmalloc
  1  at least one does not, or only in part
  2  unknown: no such process, service or command, a stopped service, no permission, wrong arguments";

/// A process, or a service or processes by their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Process(i32),
    Named(String),
}

fn target(text: &str) -> Result<Target, &'static str> {
    match text.parse::<i32>() {
        Ok(id) if id > 0 => Ok(Target::Process(id)),
        Err(_) if text.is_empty() => Err("it is empty; give a process id or a name"),
        Err(_) if !window::is_number(text) => Ok(Target::Named(text.into())),
        _ => Err("give a process id or a name"),
    }
}

/// Check that a process, service or command allocates on vcmalloc.
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES, override_usage = "vcm check PID|UNIT|NAME...\n       vcm check [--within TIME] -- COMMAND [ARG]...")]
pub struct Check {
    /// Processes or systemd services to check; a name that no service has means its processes
    #[arg(value_name = "PID|UNIT|NAME", value_parser = target, required_unless_present = "command")]
    pub targets: Vec<Target>,
    /// Time limit of the command, after which it is checked and terminated: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, requires = "command")]
    pub within: Duration,
    /// Print nothing on success
    #[arg(short, long)]
    pub quiet: bool,
    /// Command to start, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "targets")]
    pub command: Vec<OsString>,
}
