//! Throughput against cores: each pattern on 1, 2, 4 ... threads, up to one for each CPU, under every allocator.

use super::plan::{Cell, Program};
use super::session::Row;
use super::surroundings::named;
use crate::load::Pattern;
use std::fmt::Write;
use vcm_measure::allocators::ALLOCATORS;
use vcm_measure::statistics::{maximum, median, ratio};
use vcm_report::chart::{Axis, Better, Chart, Form, Series};
use vcm_report::standing_alone;

const PATTERNS: [Pattern; 6] = [
    Pattern::Larson,
    Pattern::Starve,
    Pattern::Prodcons,
    Pattern::Storage,
    Pattern::Large,
    Pattern::FalsePassive,
];
/// Starting and ending a process takes a part of the time that there is.
const PART_FOR_WORK: f64 = 0.7;
const LEAST_SECONDS: f64 = 0.1;
const MOST_SECONDS: f64 = 1.5;

/// One cell for each pattern and number of threads.
pub fn cells(cpus: usize) -> Vec<Cell> {
    let doublings = std::iter::successors(Some(1), |threads| Some(threads * 2));
    let counts: Vec<usize> = doublings.take_while(|threads| *threads < cpus).chain([cpus]).collect();
    let cell = |pattern: Pattern, threads: usize| {
        let can = !pattern.works_in_pairs() || threads.is_multiple_of(2);
        can.then_some(Cell { program: Program::Load(pattern), threads, bytes: None })
    };
    PATTERNS
        .iter()
        .flat_map(|&pattern| counts.iter().filter_map(move |&threads| cell(pattern, threads)))
        .collect()
}

/// How long each run may work for all of them to fit.
pub fn seconds_each(all: f64, runs: usize) -> f64 {
    (all * PART_FOR_WORK / runs.max(1) as f64).clamp(LEAST_SECONDS, MOST_SECONDS)
}

/// Operations a second of one allocator at each number of threads, in the order of these.
struct Line {
    allocator: &'static str,
    points: Vec<(usize, f64)>,
}

fn lines_of(rows: &[Row], pattern: Pattern) -> Vec<Line> {
    let of_pattern: Vec<&Row> =
        rows.iter().filter(|row| row.program == pattern.name() && row.is_finished()).collect();
    let mut counts: Vec<usize> = of_pattern.iter().map(|row| row.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let rate = |name: &str, threads: usize| {
        let of_cell = of_pattern.iter().filter(|row| row.allocator == name && row.threads == threads);
        let rates: Vec<f64> =
            of_cell.filter_map(|row| ratio(row.operations as f64, row.wall_seconds)).collect();
        median(&rates)
    };
    let line = |name: &'static str| Line {
        allocator: name,
        points: counts.iter().filter_map(|&threads| Some((threads, rate(name, threads)?))).collect(),
    };
    ALLOCATORS.iter().map(|known| line(known.name)).filter(|line| !line.points.is_empty()).collect()
}

/// A chart for each pattern; none without a row.
pub fn draw(rows: &[Row]) -> Option<String> {
    let chart = |&pattern: &Pattern| {
        let lines = lines_of(rows, pattern);
        let series = |line: &Line| Series {
            name: named(line.allocator),
            points: line.points.iter().map(|&(threads, rate)| (threads as f64, rate)).collect(),
            is_area: false,
        };
        (!lines.is_empty()).then(|| Chart {
            title: format!("{}: operations a second", pattern.name()),
            note: String::new(),
            form: Form::Lines {
                series: lines.iter().map(series).collect(),
                across: Axis::new("threads, on as many CPUs", "", Better::Neither),
                up: Axis::new("operations", "/s", Better::More),
            },
        })
    };
    let charts: Vec<Chart> = PATTERNS.iter().filter_map(chart).collect();
    (!charts.is_empty()).then(|| standing_alone(&charts, 2))
}

/// With three digits that tell something: large buffers go by the thousand.
fn millions(value: f64) -> String {
    match value {
        value if value < 0.1 => format!("{value:.4}"),
        value => format!("{value:.2}"),
    }
}

/// A table for each pattern: a row for each number of threads, and how ours stands to the best peer.
pub fn markdown(rows: &[Row]) -> String {
    let mut page = String::new();
    for pattern in PATTERNS {
        let lines = lines_of(rows, pattern);
        let Some(longest) = lines.iter().max_by_key(|line| line.points.len()) else { continue };
        let _ = writeln!(page, "## {}: million operations a second\n", pattern.name());
        let names: Vec<&str> = lines.iter().map(|line| line.allocator).collect();
        let _ = writeln!(page, "| threads | {} | vcmalloc / best peer |", names.join(" | "));
        let _ = writeln!(page, "|---:|{}---:|", "---:|".repeat(names.len()));
        for &(threads, _) in &longest.points {
            let at = |line: &Line| line.points.iter().find(|point| point.0 == threads).map(|point| point.1);
            let value = |line: &Line| at(line).map_or_else(|| "-".to_owned(), |rate| millions(rate / 1e6));
            let values: Vec<String> = lines.iter().map(value).collect();
            let is_peer = |line: &&Line| {
                ALLOCATORS
                    .iter()
                    .any(|known| known.name == line.allocator && known.is_peer && !known.is_ours())
            };
            let best = maximum(&lines.iter().filter(is_peer).filter_map(at).collect::<Vec<_>>());
            let ours = lines.iter().find(|line| line.allocator == "vcmalloc").and_then(at);
            let stands = ours.zip(best).and_then(|(ours, best)| ratio(ours, best));
            let stands = stands.map_or_else(String::new, |stands| format!("{stands:.2}"));
            let _ = writeln!(page, "| {threads} | {} | {stands} |", values.join(" | "));
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::summary::tests::row;

    #[test]
    fn threads_double_up_to_the_cpus_and_pairs_are_even() {
        let counts = |pattern: Pattern| {
            let of = |cell: &Cell| (cell.program == Program::Load(pattern)).then_some(cell.threads);
            cells(12).iter().filter_map(of).collect::<Vec<_>>()
        };
        assert_eq!(counts(Pattern::Larson), [1, 2, 4, 8, 12]);
        assert_eq!(counts(Pattern::Storage), [2, 4, 8, 12]);
        assert_eq!(cells(1).len(), 4);
    }

    #[test]
    fn all_runs_fit_into_the_time() {
        let cells = cells(16).len() * 11;
        assert!(seconds_each(420.0, cells) * cells as f64 <= 420.0);
        assert_eq!((seconds_each(420.0, 3), seconds_each(1.0, 1000)), (MOST_SECONDS, LEAST_SECONDS));
    }

    #[test]
    fn the_page_has_rates_by_threads_and_says_how_ours_stands() {
        let mut rows = vec![row("vcmalloc", "larson", 1.0, 1), row("glibc", "larson", 1.0, 1)];
        (rows[0].operations, rows[1].operations) = (3_000_000, 2_000_000);
        let page = markdown(&rows);
        assert!(page.contains("| 1 | 3.00 | 2.00 | 1.50 |"), "{page}");
        assert!(draw(&rows).is_some_and(|svg| svg.contains("larson")) && draw(&[]).is_none());
    }
}
