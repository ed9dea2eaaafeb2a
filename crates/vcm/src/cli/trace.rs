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
  1  the trace cannot be read or written, or is truncated ('info' and 'dump' show its readable part)
  2  wrong arguments";

/// Inspect, convert and cut traces of allocations.
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

/// Show a summary of a trace.
#[derive(Args)]
pub struct Info {
    /// Trace to read
    pub file: PathBuf,
    /// Print JSON: all figures, also per thread, and live bytes and memory over time
    #[arg(long)]
    pub json: bool,
    /// Write an HTML report that needs no network: memory over time, sizes, lifetimes, threads
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Print the events of a trace, one line each: time, thread, event.
#[derive(Args)]
pub struct Dump {
    /// Trace to read
    pub file: PathBuf,
    /// Only this thread, by its number in the trace
    #[arg(long, value_name = "NUMBER")]
    pub thread: Option<u32>,
    /// Start of the output, from the start of the trace: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub from: Duration,
    /// Maximum number of lines
    #[arg(long, value_name = "LINES")]
    pub limit: Option<u64>,
}

/// Convert a file of another tool to a trace.
#[derive(Args)]
pub struct Import {
    /// File to convert, plain or compressed by zstd or lz4
    pub source: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Format of the source
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Clock rate of a gperftools trace
    #[arg(long, value_name = "NUMBER", default_value_t = 1e9, value_parser = frequency)]
    pub ticks_per_second: f64,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Format {
    /// 16 bytes per event, ordered by time: the recorded daemons of this project
    #[default]
    Art,
    /// A raw trace of gperftools' branch wip-malloc-tracing
    Gperftools,
}

/// Write a part of a trace as a new trace, which starts with the blocks live at that time.
#[derive(Args)]
pub struct Cut {
    /// Trace to read
    pub file: PathBuf,
    /// Start of the part, from the start of the trace: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub from: Duration,
    /// Duration of the part [default: to the end]
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub length: Option<Duration>,
    /// Omit the blocks live at the start of the part
    #[arg(long)]
    pub without_live: bool,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

fn frequency(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("invalid clock rate '{text}'; give ticks per second"))
}
