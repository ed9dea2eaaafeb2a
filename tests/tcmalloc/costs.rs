//! The calls that an OSD makes every second must cost next to nothing. Counted in instructions by callgrind,
//! which needs no quiet machine; it runs the locked caches, as Debian 11 does.

use std::process::Command;
use std::time::Duration;

use vcmalloc_tests::{library, run};

use super::On;

/// Ten releases of a heap of 128 MiB, each a look at what is free in caches and spans, and ten pairs of questions. A
/// millisecond is some three million instructions.
const MOST_FOR_RELEASES: u64 = 10 * 50_000;
const MOST_FOR_QUESTIONS: u64 = 10 * 2_000;

/// A program of one thread does the janitor's ticks in its slow paths, as time passes: in one run of four such a tick
/// falls into the releases, with some 230,000 instructions of its own.
const MOST_RUNS: u32 = 10;

pub fn releases() -> Result<(), String> {
    for (function, most) in [("later_releases", MOST_FOR_RELEASES), ("questions", MOST_FOR_QUESTIONS)] {
        let mut counted = instructions_of(function)?;
        for _ in 1..MOST_RUNS {
            if counted <= most {
                break;
            }
            counted = counted.min(instructions_of(function)?);
        }
        if counted > most {
            return Err(format!(
                "{function}: {counted} instructions in the best of {MOST_RUNS}, more than {most}"
            ));
        }
        println!("{function}: {counted} instructions");
    }
    Ok(())
}

fn instructions_of(function: &str) -> Result<u64, String> {
    let built = On::Ours.command("release_cost.c")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--toggle-collect={function}")).arg(built.get_program());
    // For the program alone: valgrind runs on its own allocator.
    command.env("LD_PRELOAD", library::stand_in()?).env_remove("VCM_CONFIG");
    let finished = run(&mut command, Duration::from_secs(120))?;
    finished.succeeded()?;
    let line =
        finished.complaints.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count);
    let count = line.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| format!("no count in\n{}", finished.complaints))
}
