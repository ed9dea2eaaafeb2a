//! Runs as a Markdown table: a row an allocator, medians over the passes with their range.

use super::run::{Run, Sample};
use crate::harness::shelf::{self, Folder};
use crate::harness::surroundings;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use vcm_measure::machine::Machine;
use vcm_measure::statistics;
use vcm_report::chart::{Axis, Better, Chart, Form, Name, Series};
use vcm_report::{Colour, standing_alone};

/// A question about a run.
pub type Question = Box<dyn Fn(&Run) -> Option<f64>>;

/// A column's figure of a run; nothing where that was not seen.
pub struct Column {
    pub title: String,
    pub value: Question,
    pub show: fn(f64) -> String,
}

impl Column {
    pub fn new(
        title: impl Into<String>,
        show: fn(f64) -> String,
        value: impl Fn(&Run) -> Option<f64> + 'static,
    ) -> Self {
        Self { title: title.into(), value: Box::new(value), show }
    }

    /// Bytes, shown in MiB.
    pub fn mib(title: impl Into<String>, value: impl Fn(&Run) -> Option<u64> + 'static) -> Self {
        Self::new(
            title,
            |bytes| format!("{:.1}", bytes / MIB),
            move |run| value(run).map(|bytes| bytes as f64),
        )
    }

    pub fn ratio(title: impl Into<String>, value: impl Fn(&Run) -> Option<f64> + 'static) -> Self {
        Self::new(title, |ratio| format!("{ratio:.2}"), value)
    }
}

pub const MIB: f64 = 1048576.0;

/// `heap / live` of a sample.
pub fn heap_by_live(sample: &Sample) -> Option<f64> {
    statistics::ratio(sample.memory.heap as f64, sample.live as f64)
}

/// One table for each case, the allocators in the order of their first runs.
pub fn tables(runs: &[Run], columns: &[Column]) -> String {
    let mut text = String::new();
    for case in distinct(runs.iter().map(|run| run.case.as_str())) {
        let titles: Vec<&str> = columns.iter().map(|column| column.title.as_str()).collect();
        let _ = writeln!(text, "### {case}\n\n| allocator | {} |", titles.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.len()));
        let runs: Vec<&Run> = runs.iter().filter(|run| run.case == case).collect();
        let mut allocators = distinct(runs.iter().map(|run| run.allocator));
        allocators.sort_by_key(|name| rank(name));
        for allocator in allocators {
            let runs: Vec<&Run> = runs.iter().copied().filter(|run| run.allocator == allocator).collect();
            let cells: Vec<String> = columns.iter().map(|column| cell(column, &runs)).collect();
            let unfinished = runs.iter().find(|run| !run.is_finished());
            let note = unfinished.map_or_else(String::new, |run| format!(": {}", run.outcome.text()));
            let _ = writeln!(text, "| {allocator}{note} | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    text
}

/// The median, and least to greatest if they are shown differently.
fn cell(column: &Column, runs: &[&Run]) -> String {
    let values: Vec<f64> = runs.iter().filter_map(|run| (column.value)(run)).collect();
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), column.show);
    let (least, greatest) = (show(statistics::minimum(&values)), show(statistics::maximum(&values)));
    let middle = show(statistics::median(&values));
    if least == greatest { middle } else { format!("{middle} ({least}..{greatest})") }
}

/// Runs are interleaved, tables are not: ours first, then the peers in the order of the command line's
/// default.
fn rank(allocator: &str) -> usize {
    const ORDER: [&str; 4] = ["vcmalloc", "glibc", "jemalloc", "tcmalloc"];
    ORDER.iter().position(|prefix| allocator.starts_with(prefix)).unwrap_or(ORDER.len())
}

pub fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

/// The moment at 0 seconds in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Start,
    /// The last malloc call; a load before it that took long is cut off. For questions about what comes
    /// after.
    Stop,
}

/// The series that is the reference for all others.
const LIVE: &str = "live bytes";

const SECONDS_BEFORE_STOP: f64 = 5.0;

/// A panel for each case: the heap of each allocator over time (first pass), and the live bytes.
pub fn panels(runs: &[Run], origin: Origin) -> Vec<Chart> {
    let cases = distinct(runs.iter().map(|run| run.case.as_str()));
    let first_runs = |case| runs.iter().filter(move |run| run.case == case && run.pass == 0);
    cases.into_iter().map(|case| panel(case, first_runs(case), origin)).collect()
}

fn panel<'a>(case: &str, runs: impl Iterator<Item = &'a Run>, origin: Origin) -> Chart {
    let mut runs: Vec<&Run> = runs.collect();
    runs.sort_by_key(|run| rank(run.allocator));
    let line = |run: &&Run| Series {
        name: surroundings::named(run.allocator),
        points: points(run, origin, |one| one.memory.heap),
        is_area: false,
    };
    let mut series: Vec<Series> = runs.iter().map(line).collect();
    if let Some(run) = runs.iter().find(|run| run.is_finished()) {
        let points = points(run, origin, |one| one.live);
        series.push(Series { name: Name::new(LIVE, Colour(150, 110, 200)), points, is_area: true });
    }
    let across = Axis::new("", "seconds", Better::Neither);
    let up = Axis::new("heap RSS", "MiB", Better::Less);
    Chart { title: case.to_owned(), note: String::new(), form: Form::Lines { series, across, up } }
}

/// Seconds and MiB.
fn points(run: &Run, origin: Origin, value: fn(&Sample) -> u64) -> Vec<(f64, f64)> {
    let stop = run.samples.iter().find_map(|sample| Some(sample.seconds - sample.since_stop?));
    let (zero, least) = match (origin, stop) {
        (Origin::Stop, Some(stop)) => (stop, -SECONDS_BEFORE_STOP),
        _ => (0.0, 0.0),
    };
    let all = run.samples.iter().map(|sample| (sample.seconds - zero, value(sample) as f64 / MIB));
    all.filter(|point| point.0 >= least).collect()
}

/// The folder and the file for the pages and the rows of one measurement.
pub struct Output {
    folder: Folder,
    raw: File,
    /// The library and the command, a line each.
    origin: Vec<String>,
}

impl Output {
    pub fn new(place: Option<&Path>, library: &Path, verb: &str) -> Result<Self> {
        let (folder, raw) = Folder::new(place, library, verb)?;
        Ok(Self { folder, raw, origin: shelf::origin("vcm-memory", library) })
    }

    pub fn raw_file(&self) -> Result<File> {
        self.raw.try_clone().context("cannot write the raw data")
    }

    /// Writes and prints the pages: how it was measured, the picture if there are runs, the tables.
    pub fn write(&self, about: &str, tables: &str, panels: &[Chart]) -> Result<()> {
        if !panels.is_empty() {
            surroundings::replace(&self.folder.picture(), &standing_alone(panels, 2))?;
        }
        let about = format!("{about}\n\n{}.\n{}\n", machine(), self.origin.join("\n"));
        let seen = "Resident memory over time, a line for each allocator, and the live bytes";
        self.folder.write(&about, (!panels.is_empty()).then_some(seen), tables)
    }
}

fn machine() -> String {
    let huge = vcm_inspect::machine::huge_pages(&vcm_inspect::root::Root::real());
    format!("{}, huge pages: {}", Machine::this(), huge.as_deref().unwrap_or("none"))
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run_of;
    use super::*;

    #[test]
    fn passes_become_a_median_with_its_range() {
        let mut runs = [10, 30, 20].map(|heap| run_of(&[(Some(0.0), 5, heap)])).to_vec();
        let column = || [Column::mib("heap", |run| Some(run.last()?.memory.heap))];
        assert!(tables(&runs, &column()).contains("| glibc | 20.0 (10.0..30.0) |"));
        runs.truncate(1);
        assert!(tables(&runs, &column()).contains("| glibc | 10.0 |"));
    }

    #[test]
    fn what_was_not_seen_is_a_dash_and_what_did_not_finish_says_why() {
        let mut run = run_of(&[]);
        run.outcome = super::super::run::Outcome::OutOfMemoryKilled(1);
        let text = tables(&[run], &[Column::mib("heap", |run| Some(run.last()?.memory.heap))]);
        assert!(text.contains("| glibc: killed: out of memory (oom_kill 1) | - |"), "{text}");
    }

    #[test]
    fn a_picture_of_idleness_begins_shortly_before_the_stop() {
        let mut run = run_of(&[(None, 9, 9), (None, 8, 8), (Some(0.0), 7, 7), (Some(2.0), 6, 6)]);
        for (sample, seconds) in run.samples.iter_mut().zip([1.0, 20.0, 22.0, 24.0]) {
            sample.seconds = seconds;
        }
        assert_eq!(points(&run, Origin::Stop, |one| one.live), [(-2.0, 8.0), (0.0, 7.0), (2.0, 6.0)]);
        assert_eq!(points(&run, Origin::Start, |one| one.live)[0], (1.0, 9.0));
    }

    #[test]
    fn ours_comes_first_whoever_ran_first() {
        let mut runs = vec![run_of(&[]), run_of(&[])];
        runs[1].allocator = "vcmalloc";
        let text = tables(&runs, &[]);
        assert!(text.find("vcmalloc") < text.find("glibc"), "{text}");
    }
}
