//! What can be typed after `vcm compare`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const COMPARE_EXAMPLES: &str = "\
Examples:
  vcm compare -- ./batch-job input
  vcm compare --allocators glibc,vcmalloc,/opt/lib/mine.so --repeat 10 -- db_bench --benchmarks=fillrandom
  vcm compare --ready 7001 --load 'redis-benchmark -p 7001 -t set,get --csv' -- redis-server --port 7001
  vcm compare --metric 'rate: ([0-9.]+)' --cost 'lag: ([0-9.]+)' -- ./program
  vcm compare --sweep cache_limit=1M,32M,256M -- ./program
  vcm compare --html report.html -- ./program
  vcm compare --allocators plain,vcmalloc -- ./linked-with-its-own-allocator

Allocators: glibc, jemalloc, tcmalloc, mimalloc, vcmalloc, vcmalloc-hardened, those of 'vcm-bench', a path with a
slash, and plain: the program as it is. The first is what the others are compared with.

Understood without --metric: fio (JSON or terse), redis-benchmark --csv, wrk, db_bench, pgbench, rados bench.

Exit status:
  0    compared, whether a difference was shown or not
  1    an allocator was left out: missing, not really used, or its run failed; or nothing could be compared
  2    wrong arguments
  130  stopped by a signal; what had finished is reported";

/// Run a program under each allocator, in turns, and say which differences are shown.
///
/// Every run is checked to have really used its allocator. A server is a command with --load and --ready: it is started
/// anew for each run, takes the load program, idles and is asked to end with SIGTERM. All processes of a run are ended
/// with it.
#[derive(Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = "vcm compare [OPTIONS] -- COMMAND [ARG]...")]
pub struct Compare {
    /// Allocators by name or path; without it those that are found
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allocators: Vec<String>,
    /// Also vcmalloc with each of these values of an option ('vcm config' lists them); may be repeated
    #[arg(long, value_name = "OPTION=A,B,C")]
    pub sweep: Vec<String>,
    /// Rounds; in each every allocator runs once
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// The load program of a server, a line for the shell; it runs on the system's malloc
    #[arg(long, value_name = "LINE", requires = "ready")]
    pub load: Option<String>,
    /// When the server is ready: a port of 127.0.0.1 that it listens at, or what it prints
    #[arg(long, value_name = "REGEX|PORT", requires = "load")]
    pub ready: Option<String>,
    /// A number in the output, of which more is better: a regular expression with one group; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub metric: Vec<String>,
    /// The same for a number of which less is better
    #[arg(long, value_name = "REGEX")]
    pub cost: Vec<String>,
    /// How long a server idles before its memory is looked at for the last time
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = humantime::parse_duration)]
    pub idle: Duration,
    /// How long a run, a server's start or a load may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// The vcmalloc to compare, instead of the one that is found by itself
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Print all that was measured
    #[arg(long)]
    pub all: bool,
    /// Print JSON: every value, the comparisons, and of each allocator name, version, build and settings
    #[arg(long)]
    pub json: bool,
    /// Write a report, a page for any browser that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
