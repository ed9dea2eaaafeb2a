//! The arguments of `vcm top`.

use clap::{Args, ValueEnum};
use std::time::Duration;

const TOP_EXAMPLES: &str = "\
Examples:
  vcm top                                  all vcmalloc processes, until q
  vcm top --sort overhead --filter osd     names with 'osd', largest overhead first
  vcm top | head                           without a terminal: one table
  vcm top --json                           one reading as JSON

vcm reads the memory of the processes and runs nothing in them. It counts processes that it may not read.

Exit status:
  0  ended by q or Ctrl-C, or one reading was shown
  1  the terminal is not usable
  2  wrong arguments
  128+N  ended by signal N; the terminal is restored";

/// Live view of all vcmalloc processes and their memory.
#[derive(Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Top {
    /// Seconds between readings
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = super::stat::seconds)]
    pub interval: Duration,
    /// Column to sort by
    #[arg(long, value_enum, default_value = "rss")]
    pub sort: Column,
    /// Only processes whose id or name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Print one reading as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Column {
    Pid,
    Name,
    Rss,
    Live,
    Cached,
    Free,
    Overhead,
    Threads,
    Back,
}
