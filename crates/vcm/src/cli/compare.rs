//! The arguments of `vcm compare`.

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
  vcm compare --systemd 'ceph-osd@{1,3,5}' --arms tcmalloc,vcmalloc --for 24h     print the plan
  sudo vcm compare --systemd 'ceph-osd@{1,3,5}' --arms tcmalloc,vcmalloc --for 24h --yes
  sudo vcm compare --resume --html report.html       after a reboot or a lost connection

Allocators: glibc, jemalloc, tcmalloc, mimalloc, vcmalloc, vcmalloc-hardened, those of 'vcm-bench', a path
with a slash, and plain (the program unchanged). The first is the baseline.

Under a program linked with TCMalloc or jemalloc, vcmalloc is its replacement for that library. MALLOC_CONF of this
environment is set for jemalloc, for that replacement and for plain.

Services (experimental): each arm is a drop-in of 'vcm enable', or none. 'system', or the name of the allocator
that the program is linked with, means no drop-in. Each unit runs all arms, one per period, and is restarted at
the start of each period, one unit at a time and only with --yes. At the end each unit is as before the run.

Output understood without --metric: fio (JSON or terse), redis-benchmark --csv, wrk, db_bench, pgbench, rados bench.

Exit status:
  0    compared, with or without a significant difference; for services also: plan shown
  1    an allocator was left out (missing, not used by the program, or its run failed), or nothing was compared
  2    wrong arguments
  3    services could not be restored; the drop-ins left and the commands to run are printed
  130  stopped by a signal; finished runs are reported";

const USAGE: &str = "\
vcm compare [OPTIONS] -- COMMAND [ARG]...
       vcm compare --systemd UNITS --arms ARM,ARM --for TIME [--yes] [OPTIONS]
       vcm compare --resume [OPTIONS] | --put-back";

/// Run a program on each allocator in turn and report the significant differences.
///
/// vcm verifies that every run used its allocator. A command with --load and --ready is a server: each run starts it,
/// runs the load program, lets it idle and stops it with SIGTERM. All processes of a run end with it. Running systemd
/// services are compared under their own load (experimental).
#[derive(Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = USAGE)]
pub struct Compare {
    /// Allocators by name or path [default: all that vcm finds]
    #[arg(long, visible_alias = "arms", value_name = "NAMES", value_delimiter = ',')]
    pub allocators: Vec<String>,
    /// Add vcmalloc with each of these values of an option ('vcm config' lists them); may be repeated
    #[arg(long, value_name = "OPTION=A,B,C")]
    pub sweep: Vec<String>,
    /// Number of rounds; each runs every allocator once
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Shell command that loads the server; it runs on the system's malloc
    #[arg(long, value_name = "LINE", requires = "ready")]
    pub load: Option<String>,
    /// Sign that the server is ready: a port on 127.0.0.1 that accepts connections, or text in its output
    #[arg(long, value_name = "REGEX|PORT", requires = "load")]
    pub ready: Option<String>,
    /// Number in the output, more is better: a regular expression with one group; may be repeated. For services, a
    /// shell command that prints a number ('NAME: COMMAND' names it), with $UNIT, $INSTANCE and $MAINPID set
    #[arg(long, value_name = "REGEX|LINE")]
    pub metric: Vec<String>,
    /// Number in the output, less is better; otherwise like --metric
    #[arg(long, value_name = "REGEX|LINE")]
    pub cost: Vec<String>,
    /// Idle time of a server before the last reading of its memory
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = humantime::parse_duration)]
    pub idle: Duration,
    /// Time limit of a run, of a server's start and of a load; for a service, of its restart and health check
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// vcmalloc library to compare [default: the one that vcm finds]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Print all measurements
    #[arg(long)]
    pub all: bool,
    /// Print JSON: all values, the comparisons, and name, version, build and settings of each allocator
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Command with its arguments
    #[arg(required_unless_present_any = ["systemd", "resume", "put_back"], trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub services: Services,
}

/// Services that run already.
#[derive(Args)]
#[command(next_help_heading = "Services of systemd (experimental)")]
pub struct Services {
    /// Services to compare under their own load (experimental: no run on a real service has shown a planted
    /// difference): names, or patterns such as 'ceph-osd@{1,3..5}'; may be repeated
    #[arg(long, value_name = "UNITS", conflicts_with_all = ["command", "load", "ready", "repeat", "resume", "put_back"])]
    pub systemd: Vec<String>,
    /// Total time, without restarts
    #[arg(long = "for", value_name = "TIME", requires = "systemd", default_value = "24h", value_parser = humantime::parse_duration)]
    pub length: Duration,
    /// Number of periods per unit, a multiple of the number of arms [default: enough for twelve pairs]
    #[arg(long, value_name = "NUMBER", requires = "systemd")]
    pub periods: Option<usize>,
    /// Time after the last restart of a period that is not measured [default: 10m, at most a quarter of a period]
    #[arg(long, value_name = "TIME", requires = "systemd", value_parser = humantime::parse_duration)]
    pub washout: Option<Duration>,
    /// Shell command that succeeds when the next unit may be restarted [default: health checks of Ceph and GlusterFS]
    #[arg(long, value_name = "LINE", requires = "systemd")]
    pub health: Option<String>,
    /// Restart the units; without it vcm prints the plan and changes nothing
    #[arg(long, requires = "systemd")]
    pub yes: bool,
    /// Resume an interrupted or stopped run
    #[arg(long, conflicts_with_all = ["command", "load", "ready", "repeat", "put_back"])]
    pub resume: bool,
    /// Restore the units of an interrupted run and discard the run
    #[arg(long, conflicts_with_all = ["command", "load", "ready", "repeat"])]
    pub put_back: bool,
    /// State file of a run, for --resume
    #[arg(long, value_name = "FILE", default_value = "/var/lib/vcm/crossover.json")]
    pub state: PathBuf,
    /// Root folder of the machine whose units and drop-ins to use
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub root: Option<PathBuf>,
}
