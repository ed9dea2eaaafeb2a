//! A session: all cells, all allocators, some repetitions, interleaved.
//!
//! Every run is a row of the CSV file as soon as it is over, whatever became of it.

use super::busy;
use super::execute::{Outcome, Runner};
use super::plan::{Cell, Program};
use super::shelf::open_rows;
use super::surroundings::progress_bar;
use crate::report::Report;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use vcm_measure::allocators::{self, Ready};
use vcm_measure::turns::{Turn, interleaved};

/// One run: one row of the raw data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub pass: usize,
    pub allocator: String,
    pub program: String,
    pub threads: usize,
    pub bytes: Option<usize>,
    /// `finished`, `timed out`, or why it failed.
    pub outcome: String,
    pub operations: u64,
    pub wall_seconds: f64,
    pub cpu_user_seconds: f64,
    pub cpu_system_seconds: f64,
    pub operations_per_cpu_second: f64,
    pub pair_ns_minimum: Option<f64>,
    pub pair_ns_median: Option<f64>,
    pub start_rss_kib: u64,
    pub end_rss_kib: u64,
    pub peak_rss_kib: u64,
    pub after_rss_kib: u64,
    pub machine_ns: f64,
    /// How long single calls took, as the load program says it (JSON).
    #[serde(default)]
    pub calls: Option<String>,
    /// Running tasks on the machine just before, this one not counted: 1 and more is something else.
    pub load_before: f64,
    pub malloc_object: String,
}

pub const FINISHED: &str = "finished";

impl Row {
    fn new(pass: usize, cell: &Cell, ready: &Ready, load_before: f64, outcome: Outcome) -> Self {
        let (outcome, report) = match outcome {
            Outcome::Finished(report) => (FINISHED.to_owned(), *report),
            Outcome::TimedOut => ("timed out".to_owned(), Report::default()),
            Outcome::Failed(reason) => (reason, Report::default()),
        };
        Self {
            pass,
            allocator: ready.name().to_owned(),
            program: cell.program.into(),
            threads: cell.threads,
            bytes: cell.bytes,
            outcome,
            operations: report.operations,
            wall_seconds: report.wall_seconds,
            cpu_user_seconds: report.cpu_user_seconds,
            cpu_system_seconds: report.cpu_system_seconds,
            operations_per_cpu_second: report.operations_per_cpu_second,
            pair_ns_minimum: report.pair_ns_minimum,
            pair_ns_median: report.pair_ns_median,
            start_rss_kib: report.start_rss_kib,
            end_rss_kib: report.end_rss_kib,
            peak_rss_kib: report.peak_rss_kib,
            after_rss_kib: report.after_rss_kib,
            machine_ns: report.machine_ns,
            calls: report.calls.and_then(|calls| serde_json::to_string(&calls).ok()),
            load_before,
            malloc_object: report.malloc_object,
        }
    }

    /// None if this program knows no such pattern.
    pub fn cell(&self) -> Option<Cell> {
        Some(Cell { program: Program::named(&self.program)?, threads: self.threads, bytes: self.bytes })
    }

    pub fn is_finished(&self) -> bool {
        self.outcome == FINISHED
    }
}

/// The parts of a session.
pub struct Session<'a> {
    pub runner: &'a Runner,
    pub cells: &'a [Cell],
    /// The chosen allocators.
    pub allocators: &'a [Ready],
    /// Variants that join in the cells that name them.
    pub extras: &'a [Ready],
    pub passes: usize,
}

impl Session<'_> {
    /// Runs everything; each row is in the file before the next run starts.
    pub fn run(&self, raw: std::fs::File) -> Result<Vec<Row>> {
        let mut writer = csv::Writer::from_writer(raw);
        let turns = interleaved(self.passes, self.cells, |cell| self.allocators_of(cell));
        let progress = progress_bar(turns.len());
        let mut rows = Vec::new();
        for Turn { pass, case: cell, allocator: ready } in turns {
            progress.set_message(format!("{} on {}", cell.label(), ready.name()));
            let row = Row::new(pass, cell, ready, busy::running(), self.runner.run(cell, ready));
            if !row.is_finished() {
                progress.println(format!("{} on {}: {}", cell.label(), row.allocator, row.outcome));
            }
            writer.serialize(&row)?;
            writer.flush()?;
            rows.push(row);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(rows)
    }

    fn allocators_of(&self, cell: &Cell) -> Vec<&Ready> {
        let chosen = |ready: &&Ready| !self.allocators.iter().any(|one| one.allocator == ready.allocator);
        let joins = |ready: &&Ready| cell.extra_allocators().contains(&ready.name());
        self.allocators.iter().chain(self.extras.iter().filter(joins).filter(chosen)).collect()
    }
}

/// The rows of an earlier session. A name that is not known any more is an error: without its rows the page
/// would be another.
pub fn read_rows(raw: &Path) -> Result<Vec<Row>> {
    let shown = raw.display();
    let mut reader = csv::Reader::from_reader(open_rows(raw)?);
    let rows: Vec<Row> =
        reader.deserialize().collect::<Result<_, _>>().with_context(|| format!("{shown} is not raw data"))?;
    for row in &rows {
        ensure!(row.cell().is_some(), "{shown}: there is no pattern '{}' any more", row.program);
        ensure!(
            allocators::known(&row.allocator).is_some(),
            "{shown}: there is no allocator '{}' any more",
            row.allocator
        );
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::summary::tests::row;

    #[test]
    fn rows_of_what_is_not_known_any_more_are_no_rows_of_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let read = |allocator: &str, program: &str| {
            let raw = folder.path().join("raw.csv");
            let mut writer = csv::Writer::from_path(&raw).unwrap();
            writer.serialize(row(allocator, program, 1.0, 1)).unwrap();
            drop(writer);
            read_rows(&raw).map(|rows| rows.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read("glibc", "larson"), Ok(1));
        assert!(read("glibc", "larsson").is_err_and(|error| error.contains("no pattern 'larsson' any more")));
        assert!(read("glib", "true").is_err_and(|error| error.contains("no allocator 'glib' any more")));
    }
}
