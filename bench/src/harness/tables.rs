//! The results as Markdown: costs, memory, means, and where ours is behind.

use super::plan::{Cell, Kind};
use super::summary::{Measure, Summary};
use std::fmt::Write;
use vcm_measure::allocators::ALLOCATORS;

/// Above these, a ratio to the best peer is listed as a cell where we are behind. CPU time differs by some
/// percent from run to run on a machine that is not alone; memory hardly does.
const COST_BEHIND: f64 = 1.10;
const RSS_BEHIND: f64 = 1.02;

/// The whole page below its title.
pub fn markdown(summary: &Summary) -> String {
    let mut page = String::new();
    let fast_path = Section {
        title: "Fast path: nanoseconds per malloc and free",
        note: "One pinned thread; best of 25 repetitions in a run, median of the runs.",
        kind: Kind::FastPath,
        measure: Measure::Cost,
    };
    let sections = [
        fast_path,
        Section {
            title: "calloc and aligned pairs, nanoseconds",
            note: "One pinned thread; best of 25 repetitions in a run, median of the runs.",
            kind: Kind::Pairs,
            ..fast_path
        },
        Section {
            title: "CPU nanoseconds per operation",
            note: "User and system time of the whole process over its operations; median of the runs.",
            kind: Kind::Load,
            measure: Measure::Cost,
        },
        Section {
            title: "Peak resident memory, MiB",
            note: "Of the same runs.",
            kind: Kind::Load,
            measure: Measure::PeakRss,
        },
        Section {
            title: "Small processes: resident memory, MiB",
            note: "`true` when it exits, and a process that holds 2 MiB.",
            kind: Kind::Footprint,
            measure: Measure::PeakRss,
        },
    ];
    sections.iter().for_each(|section| section.write(summary, &mut page));
    calls().iter().for_each(|section| section.write(summary, &mut page));
    write_behind(summary, &mut page);
    write_unfinished(summary, &mut page);
    page
}

/// Of single calls: who waits, and what is done.
fn calls() -> Vec<Section> {
    let section = |title, measure| Section {
        title,
        note: "Of all calls of malloc and free of a run; median of the runs. The time that an empty timed call takes is in \
               it, and beside each run's in the rows.",
        kind: Kind::Calls,
        measure,
    };
    vec![
        section("One call, microseconds by the clock: the median", Measure::Wall(0)),
        section("One call, microseconds by the clock: 99 % are shorter", Measure::Wall(1)),
        section("One call, microseconds by the clock: 99.9 % are shorter", Measure::Wall(2)),
        section("One call, microseconds by the clock: 99.99 % are shorter", Measure::Wall(3)),
        section("One call, microseconds by the clock: the longest", Measure::Wall(4)),
        section("One call, microseconds of CPU: the median", Measure::Cpu(0)),
        section("One call, microseconds of CPU: 99 % are shorter", Measure::Cpu(1)),
        section("One call, microseconds of CPU: 99.9 % are shorter", Measure::Cpu(2)),
        section("One call, microseconds of CPU: 99.99 % are shorter", Measure::Cpu(3)),
        section("One call, microseconds of CPU: the longest", Measure::Cpu(4)),
    ]
}

#[derive(Clone, Copy)]
struct Section {
    title: &'static str,
    note: &'static str,
    kind: Kind,
    measure: Measure,
}

impl Section {
    fn write(&self, summary: &Summary, page: &mut String) {
        let cells: Vec<&Cell> = summary.cells_of(self.kind).collect();
        if cells.is_empty() {
            return;
        }
        let mut rows = vec![self.header(summary)];
        rows.extend(cells.iter().map(|cell| self.row(summary, cell)));
        if cells.len() > 1 {
            rows.extend(self.means(summary, &cells));
        }
        let _ = writeln!(page, "## {}\n\n{}\nThe best of the peers is bold.\n", self.title, self.note);
        write_table(&rows, page);
    }

    fn header(&self, summary: &Summary) -> Vec<String> {
        let names = summary.allocators.iter().map(|name| (*name).to_owned());
        let mut header: Vec<String> = std::iter::once(String::new()).chain(names).collect();
        header.push("vcmalloc / best peer".to_owned());
        header
    }

    fn row(&self, summary: &Summary, cell: &Cell) -> Vec<String> {
        let best = summary.best_peer(cell, self.measure).map(|best| best.allocator);
        let mut row = vec![cell.label()];
        for &allocator in &summary.allocators {
            let value = summary.value(cell, allocator, self.measure).map(|value| match best {
                Some(best) if best == allocator => format!("**{}**", self.number(value)),
                _ => self.number(value),
            });
            // A median of the runs that came through says nothing of those that did not.
            let failed = summary.result(cell, allocator).is_some_and(|result| result.unfinished > 0);
            let mark = failed.then(|| "✗".to_owned());
            row.push(value.into_iter().chain(mark).collect::<Vec<_>>().join(" "));
        }
        let ratio = summary.ratio_to_best(cell, "vcmalloc", self.measure);
        row.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        row
    }

    /// Two rows: the geometric mean of the ratios to the best peer, and the worst one.
    fn means(&self, summary: &Summary, cells: &[&Cell]) -> [Vec<String>; 2] {
        let mut mean = vec!["*geometric mean of ratios to the best peer*".to_owned()];
        let mut worst = vec!["*worst ratio*".to_owned()];
        for &allocator in &summary.allocators {
            match summary.mean_and_worst(cells.iter().copied(), allocator, self.measure) {
                Some((mean_ratio, worst_ratio)) => {
                    mean.push(format!("{mean_ratio:.2}"));
                    worst.push(format!("{worst_ratio:.2}"));
                }
                None => [&mut mean, &mut worst].into_iter().for_each(|row| row.push(String::new())),
            }
        }
        [mean, worst]
    }

    fn number(&self, value: f64) -> String {
        let value = match self.measure {
            Measure::PeakRss => value / 1024.0,
            Measure::Wall(_) | Measure::Cpu(_) => value / 1000.0,
            Measure::Cost => value,
        };
        match value {
            value if value < 10.0 => format!("{value:.2}"),
            value if value < 100.0 => format!("{value:.1}"),
            value => format!("{value:.0}"),
        }
    }
}

/// Columns are padded, so that the table reads in a terminal too.
fn write_table(rows: &[Vec<String>], page: &mut String) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0).max(3))
        .collect();
    for (index, row) in rows.iter().enumerate() {
        let padded = widths.iter().enumerate().map(|(column, &width)| {
            let text = cell(row, column);
            if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        });
        let _ = writeln!(page, "| {} |", padded.collect::<Vec<_>>().join(" | "));
        if index == 0 {
            let rules = widths.iter().enumerate().map(|(column, &width)| match column {
                0 => "-".repeat(width),
                _ => format!("{}:", "-".repeat(width - 1)),
            });
            let _ = writeln!(page, "| {} |", rules.collect::<Vec<_>>().join(" | "));
        }
    }
    page.push('\n');
}

/// Writes the cells where ours is not the best, worst first.
fn write_behind(summary: &Summary, page: &mut String) {
    if !summary.allocators.contains(&"vcmalloc") {
        return;
    }
    let mut behind: Vec<(f64, String)> = Vec::new();
    for cell in &summary.cells {
        for (measure, limit, what) in
            [(Measure::Cost, COST_BEHIND, "time"), (Measure::PeakRss, RSS_BEHIND, "peak RSS")]
        {
            let counts = matches!((cell.kind(), measure), (Kind::Load, _) | (_, Measure::Cost))
                || cell.kind() == Kind::Footprint;
            let ratio =
                summary.ratio_to_best(cell, "vcmalloc", measure).filter(|&ratio| counts && ratio > limit);
            if let (Some(ratio), Some(best)) = (ratio, summary.best_peer(cell, measure)) {
                behind
                    .push((ratio, format!("{}: {ratio:.2}x the {what} of {}", cell.label(), best.allocator)));
            }
        }
    }
    behind.sort_by(|one, other| other.0.total_cmp(&one.0));
    let _ = writeln!(page, "## Where vcmalloc is behind the best peer\n");
    if behind.is_empty() {
        let _ = writeln!(page, "Nowhere by more than {COST_BEHIND}x in time or {RSS_BEHIND}x in memory.");
    }
    for (_, line) in &behind {
        let _ = writeln!(page, "- {line}");
    }
    page.push('\n');
}

fn write_unfinished(summary: &Summary, page: &mut String) {
    let mut lines = Vec::new();
    for cell in &summary.cells {
        for known in ALLOCATORS {
            let result = summary.result(cell, known.name).filter(|result| result.unfinished > 0);
            if let Some(result) = result {
                let all = result.runs + result.unfinished;
                lines.push(format!(
                    "- {} on {}: {} of {all} runs",
                    cell.label(),
                    known.name,
                    result.unfinished
                ));
            }
        }
    }
    if !lines.is_empty() {
        let about = "Marked ✗ above; a number beside it is the median of the other runs.";
        let _ = writeln!(page, "## Runs that failed or timed out\n\n{about}\n\n{}\n", lines.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::summary::tests::row;

    #[test]
    fn the_page_marks_the_best_peer_and_names_where_we_are_behind() {
        let rows = [
            row("vcmalloc", "larson", 60.0, 2048),
            row("glibc", "larson", 80.0, 1024),
            row("jemalloc", "larson", 40.0, 4096),
        ];
        let page = markdown(&Summary::of(&rows));
        assert!(page.contains("**40.0**") && page.contains("**1.00**"), "{page}");
        assert!(page.contains("- larson, 1 threads: 1.50x the time of jemalloc"), "{page}");
        assert!(page.contains("- larson, 1 threads: 2.00x the peak RSS of glibc"), "{page}");
    }

    #[test]
    fn a_run_that_timed_out_is_named_and_marked() {
        let mut late = row("jemalloc", "larson", 1.0, 1);
        late.outcome = "timed out".to_owned();
        let page = markdown(&Summary::of(&[row("glibc", "larson", 1.0, 1024), late]));
        assert!(
            page.contains('✗') && page.contains("- larson, 1 threads on jemalloc: 1 of 1 runs"),
            "{page}"
        );
    }

    #[test]
    fn a_median_of_some_of_the_runs_is_marked() {
        let mut late = row("jemalloc", "larson", 1.0, 1);
        late.outcome = "timed out".to_owned();
        let rows = [row("glibc", "larson", 5.0, 1024), row("jemalloc", "larson", 9.0, 2048), late];
        let page = markdown(&Summary::of(&rows));
        assert!(page.contains(" 9.00 ✗ |") && page.contains("1 of 2 runs"), "{page}");
    }

    #[test]
    fn the_columns_of_a_table_line_up() {
        let mut page = String::new();
        write_table(&[vec!["a".into(), "long header".into()], vec!["row".into(), "1".into()]], &mut page);
        let widths: Vec<usize> = page.trim().lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{page}");
    }
}
