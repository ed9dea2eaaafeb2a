//! The arguments of `vcm top`.

use clap::{Args, ValueEnum};
use std::time::Duration;

const TOP_EXAMPLES: &str = "\
Examples:
  vcm top                                  every process on vcmalloc, until q
  vcm top --sort overhead --filter osd     those with 'osd' in the name, the most overhead first
  vcm top | head                           without a terminal: one round, as a table
  vcm top --json                           one round, for a program

It reads the memory of the processes and runs nothing in them. Those that one may not read are counted.

Exit status:
  0  ended by q or Ctrl-C; or the round was shown
  1  the terminal cannot be used
  2  wrong arguments
  128+N  ended by signal N; the terminal is as it was before";

/// Show every process on vcmalloc, and where its memory is, again and again.
#[derive(Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Top {
    /// Look again after so many seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = super::stat::seconds)]
    pub interval: Duration,
    /// What is first
    #[arg(long, value_enum, default_value = "rss")]
    pub sort: Column,
    /// Only processes with this in their number or name
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Print one round as JSON
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
