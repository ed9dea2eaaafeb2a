//! Runs one memory scenario, then idles until its standard input is closed. `vcm-memory` starts it and looks
//! at it from outside; by hand, with another terminal to look from:
//!
//!     LD_PRELOAD=libjemalloc.so.2 vcm-memory-load survivors --gib 0.5

use anyhow::Result;
use clap::Parser;
use vcmalloc_bench::memory::load::{self, Arguments};

fn main() -> Result<()> {
    load::run(&Arguments::parse())
}
