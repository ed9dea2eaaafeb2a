//! The demonstration: a real storage engine, RocksDB's `db_bench`, on each allocator in turn.
//!
//! 64 threads read and write at random through a block cache that is far too small, so blocks come and go all
//! the time. The data base is filled once, on glibc, and copied for every run, so that all start from the
//! same files.

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use vcm_measure::allocators::{self, Places, Ready};
use vcm_measure::child::{self, Used};
use vcm_measure::statistics::median;

const DB_BENCH: &str = "/usr/bin/db_bench";
const ALLOCATORS: [&str; 5] = ["vcmalloc", "glibc", "jemalloc", "tcmalloc", "mimalloc"];
const PASSES: usize = 2;
const DIRECTORY_PREFIX: &str = "vcmalloc-demo-";
/// About 80 MB of data against 8 MB of block cache.
const DATA: [&str; 6] = [
    "--num=200000",
    "--value_size=400",
    "--compression_type=none",
    "--cache_size=8388608",
    "--write_buffer_size=8388608",
    "--disable_wal=1",
];

/// Measures `threads` threads for `seconds` a run and prints the table.
pub fn run(places: &Places, threads: usize, seconds: u64) -> Result<()> {
    ensure!(
        Path::new(DB_BENCH).exists(),
        "{DB_BENCH} is not there; `apt-get install rocksdb-tools` brings it"
    );
    let chosen = allocators::ALLOCATORS.iter().filter(|one| ALLOCATORS.contains(&one.name));
    let ready = allocators::ready(&chosen.collect::<Vec<_>>(), places);
    let scratch = Scratch::new()?;
    let template = scratch.0.join("template");
    fill(&template)?;
    println!(
        "RocksDB's db_bench, {threads} threads reading and writing at random, {PASSES} x {seconds} s each."
    );

    let progress = ProgressBar::new((PASSES * ready.len()) as u64);
    progress.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}")?);
    let mut runs: Vec<Vec<Measured>> = vec![Vec::new(); ready.len()];
    for pass in 0..PASSES {
        for offset in 0..ready.len() {
            let index = (pass + offset) % ready.len();
            progress.set_message(ready[index].name());
            let data = scratch.0.join("run");
            copy_files(&template, &data)?;
            runs[index].push(measure(&ready[index], &data, threads, seconds)?);
            std::fs::remove_dir_all(&data)?;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    print!("{}", table(&ready, &runs));
    Ok(())
}

/// A directory for the data bases, in memory where there is room. It goes when this value is dropped and when
/// the program is interrupted; what a killed demonstration left is removed by the next one.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_leftovers(&parent);
        let path = parent.join(format!("{DIRECTORY_PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let doomed = path.clone();
        ctrlc::set_handler(move || {
            // db_bench may still be writing, and then a directory that was just emptied is not empty: again.
            let removed = (0..100).any(|_| std::fs::remove_dir_all(&doomed).is_ok());
            let path = doomed.display();
            eprintln!(
                "\ninterrupted; {path} is {}",
                if removed { "removed" } else { "left: remove it by hand" }
            );
            std::process::exit(130);
        })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}; remove it by hand", self.0.display());
        }
    }
}

/// Directories of demonstrations whose process is gone.
fn remove_leftovers(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn db_bench(command: &mut Command, data: &Path, benchmark: &str) {
    command.arg(format!("--db={}", data.display())).arg(format!("--benchmarks={benchmark}")).args(DATA);
}

fn fill(template: &Path) -> Result<()> {
    let mut command = Command::new(DB_BENCH);
    command.env_remove("LD_PRELOAD");
    db_bench(&mut command, template, "fillseq");
    let ended = child::run(&mut command, Duration::from_secs(120))?;
    ensure!(
        ended.status.is_some_and(|status| status.success()),
        "db_bench cannot fill: {}",
        ended.errors.trim()
    );
    Ok(())
}

/// Copies a directory of plain files.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    operations: f64,
    operations_per_second: f64,
    used: Used,
}

fn measure(ready: &Ready, data: &Path, threads: usize, seconds: u64) -> Result<Measured> {
    let mut command = ready.command(Path::new(DB_BENCH));
    db_bench(&mut command, data, "readrandomwriterandom");
    command.args([
        "--use_existing_db=1".to_owned(),
        format!("--threads={threads}"),
        format!("--duration={seconds}"),
    ]);
    let name = ready.name();
    let ended = child::run(&mut command, Duration::from_secs(10 * seconds + 60))?;
    let status = ended.status.with_context(|| format!("db_bench on {name} did not end in time"))?;
    ensure!(status.success(), "db_bench on {name}: {status}; {}", ended.errors.trim());
    // The dynamic linker only warns when it cannot preload; db_bench would then run on glibc under another's
    // name.
    ensure!(!ended.errors.contains("cannot be preloaded"), "db_bench on {name}: {}", ended.errors.trim());
    let (operations_per_second, operations) = rates(&ended.output)
        .with_context(|| format!("db_bench on {name} printed no result; it said: {}", ended.errors.trim()))?;
    Ok(Measured { operations, operations_per_second, used: ended.usage })
}

/// Operations a second, and operations, from a line "NAME : ... micros/op N ops/sec ... seconds N operations;
/// ...".
fn rates(output: &str) -> Option<(f64, f64)> {
    let line = output.lines().rev().find(|line| line.contains("ops/sec"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |unit: &str| {
        let position = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        words.get(position.checked_sub(1)?)?.parse().ok()
    };
    Some((before("ops/sec")?, before("operations")?))
}

fn table(ready: &[Ready], runs: &[Vec<Measured>]) -> String {
    let mut text = format!(
        "{:<12} {:>12} {:>12} {:>16} {:>14}\n",
        "", "operations/s", "CPU seconds", "CPU us/operation", "peak RSS, MiB"
    );
    for (ready, runs) in ready.iter().zip(runs) {
        let middle =
            |value: fn(&Measured) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0);
        text += &format!(
            "{:<12} {:>12.0} {:>12.2} {:>16.2} {:>14.0}\n",
            ready.name(),
            middle(|run| run.operations_per_second),
            middle(|run| run.used.cpu_seconds),
            middle(|run| run.used.cpu_seconds * 1e6 / run.operations),
            middle(|run| run.used.peak_rss_kib as f64 / 1024.0),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_are_read_from_the_last_result_line() {
        let output = "DB path: [x]\nreadrandomwriterandom :  538.5 micros/op 114500 ops/sec 5.4 seconds 619936 \
                      operations; ( reads:7200 writes:799 )\n";
        assert_eq!(rates(output), Some((114_500.0, 619_936.0)));
        assert_eq!(rates("open error: no such file"), None);
    }
}
