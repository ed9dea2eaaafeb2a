//! The arguments of `vcm trace`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const TRACE_EXAMPLES: &str = "\
Examples:
  vcm trace import osd.art.zst -o osd.vct
  vcm trace import --format gperftools raw.lz4 -o server.vct
  vcm trace info osd.vct
  vcm trace info osd.vct --html osd.html
  vcm trace cut osd.vct --from 10s --for 5s -o part.vct
  vcm trace dump part.vct --limit 100

Exit status:
  0  done
  1  the trace cannot be read or written, or was cut off ('info' and 'dump' show what there is)
  2  wrong arguments";

/// Look into traces of what a process allocated and freed, convert and cut them.
#[derive(Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub struct TraceVerb {
    #[command(subcommand)]
    pub act: Act,
}

#[derive(Subcommand)]
pub enum Act {
    Info(Info),
    Dump(Dump),
    Import(Import),
    Cut(Cut),
}

/// Show what a trace holds, in figures.
#[derive(Args)]
pub struct Info {
    /// The trace
    pub file: PathBuf,
    /// Print JSON: all of that, by thread, and some thousand moments of live bytes and memory
    #[arg(long)]
    pub json: bool,
    /// Write a report, a page for any browser that needs no network: memory over time, sizes, lifetimes, threads
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Print the events of a trace, a line each: time, thread, what it did.
#[derive(Args)]
pub struct Dump {
    /// The trace
    pub file: PathBuf,
    /// Only this thread, by its number in the trace
    #[arg(long, value_name = "NUMBER")]
    pub thread: Option<u32>,
    /// Begin so long after the trace began: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub from: Duration,
    /// End after so many lines
    #[arg(long, value_name = "LINES")]
    pub limit: Option<u64>,
}

/// Make a trace from a file of another tool.
#[derive(Args)]
pub struct Import {
    /// The file, packed by zstd or lz4 or not
    pub source: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// What the source is
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// How fast the clock of a gperftools trace ran
    #[arg(long, value_name = "NUMBER", default_value_t = 1e9, value_parser = frequency)]
    pub ticks_per_second: f64,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Format {
    /// 16 bytes an event in the order of time, as the recorded daemons of this project
    #[default]
    Art,
    /// A raw trace of gperftools' branch wip-malloc-tracing
    Gperftools,
}

/// Write a part of a trace as a trace of its own. It begins with the blocks that lived then.
#[derive(Args)]
pub struct Cut {
    /// The trace
    pub file: PathBuf,
    /// The part begins so long after the trace: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub from: Duration,
    /// The part is so long; without it, to the end
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub length: Option<Duration>,
    /// Leave out the blocks that lived when the part begins
    #[arg(long)]
    pub without_live: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

fn frequency(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("'{text}' is no number of ticks a second"))
}
