//! One program in Rust, chosen by its name, on the global allocator of the feature it was built with.
//!
//!     rust-allocators PROGRAM [SCALE]
//!
//! Prints a number that depends on what the program has computed, which is the same on every allocator, and
//! the most memory that was resident, in KiB, as the kernel counts it. `vcm-bench programs` measures the time
//! from outside.

mod allocator;
mod programs;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::begin();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = words.first().and_then(|name| programs::ALL.iter().find(|program| program.0 == *name));
    let scale = words.get(1).map_or(Ok(1), |word| word.parse());
    let (Some((_, program)), Ok(scale)) = (chosen, scale) else {
        let names: Vec<&str> = programs::ALL.iter().map(|program| program.0).collect();
        eprintln!("usage: rust-allocators PROGRAM [SCALE]    programs: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let computed = program(scale);
    println!("{} {computed:016x} {}", allocator::NAME, most_resident());
    ExitCode::SUCCESS
}

/// VmHWM begins anew with each program; what getrusage says begins with the memory of who started it.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
