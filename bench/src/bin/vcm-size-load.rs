//! Becomes a process of a given size, says what its calls cost as a line of JSON, and waits for its input to end.
//! `vcm-bench sizes` starts it under each allocator.

use anyhow::Result;
use clap::Parser;
use vcmalloc_bench::load::sized::{self, Size};

/// Becomes a process of a given size, and tells what its calls cost.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Bytes of blocks that stay
    #[arg(long, default_value_t = 1 << 30)]
    heap: usize,
    /// Distinct sizes of these
    #[arg(long, default_value_t = 16)]
    sizes: usize,
    /// The least of them; the greatest is 32 times as long
    #[arg(long, default_value_t = sized::LEAST)]
    least: usize,
    /// How many times each of them was replaced
    #[arg(long, default_value_t = 0)]
    age: usize,
}

fn main() -> Result<()> {
    let Arguments { threads, heap, sizes, least, age } = Arguments::parse();
    sized::run(Size { threads, heap_bytes: heap, sizes, least, age })
}
