//! The patterns of `vcm-load` as they are recorded for a model, and what is run on each.

use crate::drive::Ran;
use crate::seen::Seen;
use crate::tape::TAKEN_SHARE;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A pattern, and how much of it is recorded.
pub struct Pattern {
    pub name: &'static str,
    /// Operations of all threads, at least, and of each.
    least: u64,
    each: u64,
    threads: Threads,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// As many as CPUs.
    Each,
    /// So many: each has large blocks of its own.
    Few,
    /// The calls of one are done on every CPU.
    One,
}

const fn pattern(name: &'static str, least: u64, each: u64, threads: Threads) -> Pattern {
    Pattern { name, least, each, threads }
}

pub const PATTERNS: [Pattern; 27] = [
    pattern("storage", 60_000, 1_500, Threads::Each),
    pattern("larson", 400_000, 15_000, Threads::Each),
    pattern("prodcons", 1_600_000, 100_000, Threads::Each),
    pattern("starve", 300_000, 8_000, Threads::Each),
    pattern("mixedlife", 400_000, 10_000, Threads::Each),
    pattern("churn", 6_000, 32, Threads::Each),
    pattern("false-active", 400_000, 8_000, Threads::Each),
    pattern("false-passive", 400_000, 8_000, Threads::Each),
    pattern("realloc", 60_000, 1_500, Threads::Each),
    pattern("timed-small", 400_000, 8_000, Threads::Each),
    pattern("timed-mixed", 200_000, 5_000, Threads::Each),
    pattern("timed-large", 6_000, 64, Threads::Each),
    pattern("large", 3_000, 16, Threads::Each),
    pattern("buffer-fresh", 600, 0, Threads::Few),
    pattern("buffer-halves", 400, 0, Threads::Few),
    pattern("buffer-pages", 60_000, 0, Threads::Few),
    pattern("buffer-steps", 6_000, 0, Threads::Few),
    pattern("buffer-strings", 3_000, 0, Threads::Few),
    pattern("buffer-turns", 1_500, 0, Threads::Few),
    pattern("pair", 0, 0, Threads::One),
    pattern("pair-live", 0, 0, Threads::One),
    pattern("batch-lifo", 0, 0, Threads::One),
    pattern("batch-fifo", 0, 0, Threads::One),
    pattern("batch-random", 0, 0, Threads::One),
    pattern("mixed", 0, 0, Threads::One),
    pattern("zeroed", 0, 0, Threads::One),
    pattern("page-aligned", 0, 0, Threads::One),
];

const FEW: usize = 8;
/// Calls that are stepped through, on the run's heap and on a peer.
const STEPPED: usize = 9000;
const STEPPED_OF_PEERS: usize = 4000;

/// The folders of the programs, and of the records and counts that are kept.
pub struct Places {
    pub built: PathBuf,
    pub kept: PathBuf,
}

/// The counts of one pattern on so many CPUs.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Row {
    pub pattern: String,
    pub cpus: usize,
    pub counted: Ran,
    pub timed: Ran,
    pub nothing: Ran,
    pub seen: Option<Seen>,
}

impl Pattern {
    /// The trace, recorded if it is not there: what a program asks for is the same on every allocator.
    fn trace(&self, places: &Places, cpus: usize) -> Result<(PathBuf, usize)> {
        let (threads, copies) = match self.threads {
            Threads::Each => (cpus, 1),
            Threads::Few => (FEW, 1),
            Threads::One => (1, cpus),
        };
        let file = places.kept.join(format!("{}-{threads}.vct", self.name));
        if !file.exists() {
            let mut command = Command::new(places.built.join("vcm"));
            command.args(["record", "-o"]).arg(&file).arg("--").arg(places.built.join("vcm-load"));
            command.args([self.name, "--threads", &threads.to_string()]);
            match self.threads {
                Threads::One => command.args(["--seconds", "0.02"]),
                _ => command.args(["--operations", &self.operations(threads).to_string()]),
            };
            let ended = command.output().context("vcm record does not start")?;
            let said = String::from_utf8_lossy(&ended.stderr);
            ensure!(ended.status.success() && file.exists(), "{} was not recorded: {said}", self.name);
        }
        Ok((file, copies))
    }

    /// Operations of all threads in a record for so many CPUs.
    fn operations(&self, threads: usize) -> u64 {
        self.least.max(self.each * threads as u64)
    }

    /// Calls that an operation makes, by the record of two threads.
    pub fn calls_an_operation(&self, row: &Row) -> f64 {
        // A record is cut before its end, and the first half only fills caches.
        row.counted.calls as f64 * 2.0 / TAKEN_SHARE / self.operations(2) as f64
    }

    pub fn count(&self, places: &Places, cpus: usize) -> Result<Row> {
        let (trace, copies) = self.trace(places, cpus)?;
        count(self.name, &trace, cpus, copies)
    }

    /// The lines that two threads of it write on the allocator of a library, by turns.
    pub fn pair(&self, places: &Places, library: Option<&Path>) -> Result<Seen> {
        let (trace, _) = self.trace(places, 2)?;
        run("pair", &trace, 2, 1, library)
    }
}

/// The calls of a recorded daemon.
pub fn count(name: &str, trace: &Path, cpus: usize, copies: usize) -> Result<Row> {
    let ran = |mode: &str| run::<Ran>(mode, trace, cpus, copies, None);
    // The faster of two: what else runs on the machine takes its caches.
    let least = |mode: &str| -> Result<Ran> {
        let (one, other) = (ran(mode)?, ran(mode)?);
        Ok(if one.nanoseconds <= other.nanoseconds { one } else { other })
    };
    let (nothing, timed, counted) = (least("nothing")?, least("timed")?, ran("counted")?);
    let seen = run("walk", trace, cpus, copies, None).ok();
    Ok(Row { pattern: name.to_owned(), cpus, counted, timed, nothing, seen })
}

fn run<T: DeserializeOwned>(
    mode: &str,
    trace: &Path,
    cpus: usize,
    copies: usize,
    library: Option<&Path>,
) -> Result<T> {
    let stepped = if mode == "pair" { STEPPED_OF_PEERS } else { STEPPED };
    // Stepping through the bytes of large blocks would take hours: such a row has no lines.
    let mut command = Command::new("timeout");
    command.arg(if matches!(mode, "walk" | "pair") { "60" } else { "600" }).arg(std::env::current_exe()?);
    command.arg(mode).arg(trace).args([cpus, copies, stepped].map(|number| number.to_string()));
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let ended = command.output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success(),
        "{mode} of {} with {cpus} CPUs: {}; {said}",
        trace.display(),
        ended.status
    );
    Ok(serde_json::from_slice(&ended.stdout)?)
}
