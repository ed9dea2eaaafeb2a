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
  vcm compare --systemd 'ceph-osd@{1,3,5}' --arms tcmalloc,vcmalloc --for 24h           shows the plan
  sudo vcm compare --systemd 'ceph-osd@{1,3,5}' --arms tcmalloc,vcmalloc --for 24h --yes
  sudo vcm compare --resume --html report.html       after a reboot or a lost connection

Allocators: glibc, jemalloc, tcmalloc, mimalloc, vcmalloc, vcmalloc-hardened, those of 'vcm-bench', a path with a
slash, and plain: the program as it is. The first is what the others are compared with.

Of services (experimental) each arm is a drop-in of 'vcm enable' or none at all: 'system' is what the program has without one, and so is
the name of the allocator that it is linked with. Each unit goes through all arms, one period after the other; it is
restarted at the beginning of each, one unit at a time, only with --yes, and left as it was.

Understood without --metric: fio (JSON or terse), redis-benchmark --csv, wrk, db_bench, pgbench, rados bench.

Exit status:
  0    compared, whether a difference was shown or not; of services also: the plan was shown
  1    an allocator was left out: missing, not really used, or its run failed; or nothing could be compared
  2    wrong arguments
  3    services could not be left as they were: what lies where, and the commands, are told
  130  stopped by a signal; what had finished is reported";

const USAGE: &str = "\
vcm compare [OPTIONS] -- COMMAND [ARG]...
       vcm compare --systemd UNITS --arms ARM,ARM --for TIME [--yes] [OPTIONS]
       vcm compare --resume [OPTIONS] | --put-back";

/// Run a program under each allocator, in turns, and say which differences are shown.
///
/// Every run is checked to have really used its allocator. A server is a command with --load and --ready: it is started
/// anew for each run, takes the load program, idles and is asked to end with SIGTERM. All processes of a run are ended
/// with it. Services of systemd that run already are compared under the load that they have: experimental.
#[derive(Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = USAGE)]
pub struct Compare {
    /// Allocators by name or path; without it those that are found
    #[arg(long, visible_alias = "arms", value_name = "NAMES", value_delimiter = ',')]
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
    /// A number in the output, of which more is better: a regular expression with one group; may be repeated. Of services
    /// a line for the shell that prints a number, 'NAME: LINE' with a name; it knows $UNIT, $INSTANCE and $MAINPID
    #[arg(long, value_name = "REGEX|LINE")]
    pub metric: Vec<String>,
    /// The same for a number of which less is better
    #[arg(long, value_name = "REGEX|LINE")]
    pub cost: Vec<String>,
    /// How long a server idles before its memory is looked at for the last time
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = humantime::parse_duration)]
    pub idle: Duration,
    /// How long a run, a server's start or a load may take; of a service its restart, and the wait for health
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
    #[arg(required_unless_present_any = ["systemd", "resume", "put_back"], trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub services: Services,
}

/// Services that run already.
#[derive(Args)]
#[command(next_help_heading = "Services of systemd (experimental)")]
pub struct Services {
    /// The services that take turns, with their own load (experimental: no run on a real service has shown a planted
    /// difference yet): names, or patterns such as 'ceph-osd@{1,3..5}'; may be repeated
    #[arg(long, value_name = "UNITS", conflicts_with_all = ["command", "load", "ready", "repeat", "resume", "put_back"])]
    pub systemd: Vec<String>,
    /// How long it takes in all, restarts apart
    #[arg(long = "for", value_name = "TIME", requires = "systemd", default_value = "24h", value_parser = humantime::parse_duration)]
    pub length: Duration,
    /// Periods of each unit, a multiple of the number of arms; without it as many as give twelve pairs
    #[arg(long, value_name = "NUMBER", requires = "systemd")]
    pub periods: Option<usize>,
    /// What is left out after the last restart of each period; without it 10m, or a quarter of a shorter period
    #[arg(long, value_name = "TIME", requires = "systemd", value_parser = humantime::parse_duration)]
    pub washout: Option<Duration>,
    /// A line for the shell that succeeds where another unit may be restarted; without it Ceph and GlusterFS are asked
    #[arg(long, value_name = "LINE", requires = "systemd")]
    pub health: Option<String>,
    /// Restart the units; without it the plan is shown, and nothing is touched
    #[arg(long, requires = "systemd")]
    pub yes: bool,
    /// Go on with the run that was cut off or stopped
    #[arg(long, conflicts_with_all = ["command", "load", "ready", "repeat", "put_back"])]
    pub resume: bool,
    /// Leave the units of a run that was cut off as they were before it, and forget it
    #[arg(long, conflicts_with_all = ["command", "load", "ready", "repeat"])]
    pub put_back: bool,
    /// Where a run keeps what it needs to be resumed
    #[arg(long, value_name = "FILE", default_value = "/var/lib/vcm/crossover.json")]
    pub state: PathBuf,
    /// The machine whose units and drop-ins are in this folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub root: Option<PathBuf>,
}
