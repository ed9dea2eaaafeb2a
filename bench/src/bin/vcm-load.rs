//! Runs one allocation pattern and prints one line of JSON. Put an allocator under it with LD_PRELOAD:
//!
//!     LD_PRELOAD=libjemalloc.so.2 vcm-load storage --threads 512 --seconds 3

use anyhow::{Result, ensure};
use clap::Parser;
use std::time::Duration;
use vcmalloc_bench::load::crew::Length;
use vcmalloc_bench::load::{self, Pattern, Settings, process};

/// Runs one allocation pattern on the malloc of this process and prints one line of JSON.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    pattern: Pattern,
    /// Threads that allocate and free
    #[arg(long, short, default_value_t = 1)]
    threads: usize,
    /// How long to work [default: 1]
    #[arg(long, short)]
    seconds: Option<f64>,
    /// Work until this many operations are done, in equal shares; with --seconds, no longer than that
    #[arg(long)]
    operations: Option<u64>,
    /// Block size, for patterns that have one
    #[arg(long, short)]
    bytes: Option<usize>,
    /// Stay on this CPU
    #[arg(long)]
    pin: Option<usize>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(cpu) = arguments.pin {
        process::pin_to(cpu)?;
    }
    let Arguments { pattern, threads, bytes, .. } = arguments;
    let time = arguments.seconds.map(|seconds| {
        ensure!(seconds > 0.0 && seconds <= 3600.0, "--seconds {seconds} is not between 0 and 3600");
        Ok(Duration::from_secs_f64(seconds))
    });
    let length = match (arguments.operations, time.transpose()?) {
        (Some(operations), time) => Length::Operations(operations, time),
        (None, Some(time)) => Length::Time(time),
        (None, None) => pattern.default_length(),
    };
    let report = load::run(&Settings { pattern, threads, length, bytes })?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
