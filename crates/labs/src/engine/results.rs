//! The results of a run: rows as measured, and everything needed to judge and to repeat them.
//!
//! Owns the JSON schema. Promises that raw rows are in it, whatever the verdict. `run` fills it, `page` shows
//! it.

use super::cell::Cell;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vcm_measure::machine::Machine;

/// Goes up when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: u32,
    pub lab: String,
    pub experiment: String,
    pub title: String,
    /// Of the daemons, where one was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// When it began, RFC 3339.
    pub date: String,
    pub seconds: f64,
    pub command: String,
    /// `quick` or `full`.
    pub plan: String,
    pub machine: Machine,
    /// Name and version of the packages and libraries that took part.
    pub versions: BTreeMap<String, String>,
    pub allocators: Vec<String>,
    pub rows: Vec<Row>,
    pub verdict: Verdict,
    /// The facts that the reader has to know about this run.
    pub notes: Vec<String>,
    /// Cells that failed, with the reason; their rows are missing.
    pub failures: Vec<String>,
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub allocator: String,
    pub axes: BTreeMap<String, String>,
    pub repetition: u32,
    pub step: String,
    pub values: BTreeMap<String, f64>,
}

impl Row {
    pub fn of(cell: &Cell, allocator: &str) -> Row {
        Row {
            allocator: allocator.to_owned(),
            axes: cell.axes.clone(),
            repetition: cell.repetition,
            step: String::new(),
            values: BTreeMap::new(),
        }
    }

    pub fn step(mut self, step: &str) -> Row {
        self.step = step.to_owned();
        self
    }

    pub fn value(mut self, measure: &str, value: f64) -> Row {
        self.values.insert(measure.to_owned(), value);
        self
    }

    pub fn values(self, values: impl IntoIterator<Item = (&'static str, f64)>) -> Row {
        values.into_iter().fold(self, |row, (measure, value)| row.value(measure, value))
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Reasons why the numbers mean nothing; none: they may be read.
    pub void: Vec<String>,
    pub controls: Vec<Judged>,
    pub claims: Vec<Judged>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judged {
    pub what: String,
    /// None if the run has no such rows.
    pub measured: Option<f64>,
    pub bound: f64,
    pub holds: Option<bool>,
    pub remark: String,
}
