//! The words of `vcm-bench programs`.

use clap::Args;
use std::path::PathBuf;

/// The measurements of a session.
#[derive(Args)]
pub struct Choice {
    /// Sets (whole, hardened, watching, idle, rust, untuned, servers) and parts of names, with commas [default: whole]
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Names of allocators, with commas; `default` and `all` are groups
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub allocators: Vec<String>,
    /// Another library beside them, as NAME=FILE; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub add: Vec<String>,
    /// Runs of each program on each allocator
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Adds vcmalloc with a tracer at its probes; as root
    #[arg(long)]
    pub tracer: bool,
    /// Adds tables of differences from this column, with their intervals
    #[arg(long)]
    pub against: Option<String>,
    /// Folder of runs/, as of `run --output`
    #[arg(long = "output")]
    pub out: Option<PathBuf>,
    /// Only prints the table of programs
    #[arg(long)]
    pub list: bool,
}
