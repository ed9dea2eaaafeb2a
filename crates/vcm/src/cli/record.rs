//! The arguments of `vcm record`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vcm record -- db_bench --benchmarks=fillrandom       writes db_bench.vct
  vcm record -o osd.vct --after 1m --for 30s -- ceph-osd -f -i 3
  vcm record --preload libjemalloc.so.2 -- ./program   on another allocator
  vcm record --program redis-server -- ./start-all     the first process of that name
  vcm trace info db_bench.vct                          summary of the recording
  vcm record --html report.html -- ./program           the same as an HTML page

  vcm record --pid ceph-osd --after 10s --for 30s      a running process, on vcmalloc

With --pid nothing is loaded into the process: its own libvcmalloc writes the events to at most 64 MiB of its
memory, where vcm reads them. Requires the permissions of a debugger (ptrace(2)). Frees of blocks from before the
recording are recorded as frees of unknown blocks. If vcm is killed, the recording ends within five seconds.

Exit status:
  with --pid: 0, also if Ctrl-C or the end of the process ended the recording; 128+N if another signal did
  with a command: that of the command; 128+N if signal N killed it
  125  vcm failed or refused, nothing was recorded, or the file is incomplete
  126  the command cannot be executed
  127  the command was not found";

/// Record the allocations and frees of a program, on any allocator, as a trace.
///
/// vcm records one process, across exec: the one that it starts, the first of a name (--program), or one that already
/// runs on vcmalloc (--pid). It records no children and no contents of blocks.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "vcm record [OPTIONS] -- COMMAND [ARG]...\n       vcm record [OPTIONS] --pid PID")]
pub struct Record {
    /// Running process on vcmalloc to record: its id, or its name if unique
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "program", "preload", "library"])]
    pub pid: Option<String>,
    /// File to write [default: the command's name and '.vct', in the current folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Delay before the recording: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub after: Duration,
    /// Duration of the recording; the command continues after it [default: to its end]
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub length: Option<Duration>,
    /// Record one in N addresses, each with all its events
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = one_in)]
    pub sample: u32,
    /// Record the first process of this name instead of the command itself
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// Allocator library to run the command on; may be repeated
    #[arg(long, value_name = "LIBRARY")]
    pub preload: Vec<OsString>,
    /// Interposer library [default: the one that vcm finds]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Write an HTML report of the recording that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Command with its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

fn one_in(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").unwrap_or(text).parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("invalid sampling rate '{text}'; use 1/100"))
}
