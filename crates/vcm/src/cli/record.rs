//! The arguments of `vcm record`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vcm record -- db_bench --benchmarks=fillrandom       to db_bench.vct
  vcm record -o osd.vct --after 1m --for 30s -- ceph-osd -f -i 3
  vcm record --preload libjemalloc.so.2 -- ./program   over another allocator
  vcm record --program redis-server -- ./start-all     the first process of that name
  vcm trace info db_bench.vct                          what was recorded
  vcm record --html report.html -- ./program           the same as a page for a browser

  vcm record --pid ceph-osd --after 10s --for 30s      a process that runs already, on vcmalloc

With --pid the process goes on as it is: nothing is loaded into it, and its own libvcmalloc writes the events down, in
at most 64 MiB of its memory, while vcm reads them there. It takes the rights of a debugger (ptrace(2)). Blocks from
before are told when they are freed, as blocks that nobody knows. It ends within five seconds when vcm is killed.

Exit status:
  with --pid 0, also when Ctrl-C or its end ended the recording; 128+N when another signal did
  the command's own; 128+N, as a shell sees it, when signal N killed it
  125  vcm failed or refused, nothing was recorded, or the file could not be written to its end
  126  the command cannot be executed
  127  the command was not found";

/// Record what a program allocates and frees, over any allocator, into a trace.
///
/// One process is recorded, also behind exec: the one that is started, or with --program the first of that name. Children
/// of fork are not. Contents are never recorded. With --pid it is a process that runs on vcmalloc already.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "vcm record [OPTIONS] -- COMMAND [ARG]...\n       vcm record [OPTIONS] --pid PID")]
pub struct Record {
    /// Record this process, which runs on vcmalloc: its number, or its name where only one has it
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "program", "preload", "library"])]
    pub pid: Option<String>,
    /// The file to write; without it the command's name and '.vct', here
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Begin so long after the start, or from now: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub after: Duration,
    /// Record so long; the command goes on. Without it, to its end
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub length: Option<Duration>,
    /// Record one in N addresses, each with all its events
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = one_in)]
    pub sample: u32,
    /// Record the first process of this name, instead of the one that is started
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// The allocator to run the command on, a library; may be repeated
    #[arg(long, value_name = "LIBRARY")]
    pub preload: Vec<OsString>,
    /// The interposer's library, instead of the one that is found by itself
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Write a report of what was recorded, a page for any browser that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// The command and its arguments
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
    number.ok_or_else(|| format!("'{text}' is no share: write 1/100 for one in a hundred addresses"))
}
