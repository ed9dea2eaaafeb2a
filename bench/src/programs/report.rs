//! The tables: medians of each row over the best peer's, and differences from one column.

use super::row::Row;
use super::table::{self, Figure};
use std::collections::BTreeMap;
use vcm_measure::allocators::{self, ALLOCATORS, CRATES};
use vcm_measure::paired;
use vcm_measure::statistics::{geometric_mean, maximum, median, ratio};

/// A quantity that has a table.
struct Quantity {
    title: &'static str,
    unit: &'static str,
    decimals: usize,
    of: fn(&Row) -> Option<f64>,
}

const QUANTITIES: [Quantity; 4] = [
    Quantity { title: "Malloc and free", unit: "ns", decimals: 1, of: |row| row.pair_ns },
    Quantity {
        title: "CPU",
        unit: "ms",
        decimals: 0,
        of: |row| {
            if row.pair_ns.is_some() { None } else { Some((row.user? + row.system.unwrap_or(0.0)) * 1000.0) }
        },
    },
    Quantity {
        title: "Peak RSS",
        unit: "MiB",
        decimals: 1,
        of: |row| if row.held_kib.is_some() { None } else { Some(row.peak_kib? / 1024.0) },
    },
    Quantity { title: "Held when idle", unit: "MiB", decimals: 1, of: |row| Some(row.held_kib? / 1024.0) },
];

/// The values of one quantity: of each program and column those of the rounds.
struct Values<'a> {
    programs: Vec<&'a str>,
    columns: Vec<&'a str>,
    of: BTreeMap<(&'a str, &'a str), BTreeMap<usize, f64>>,
}

impl<'a> Values<'a> {
    fn new(rows: &[&'a Row], quantity: &Quantity) -> Self {
        let (mut programs, mut columns): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut of: BTreeMap<_, BTreeMap<usize, f64>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.is_finished()) {
            let Some(value) = (quantity.of)(row) else { continue };
            let key = (row.program.as_str(), row.allocator.as_str());
            if !programs.contains(&key.0) {
                programs.push(key.0);
            }
            if !columns.contains(&key.1) {
                columns.push(key.1);
            }
            of.entry(key).or_default().insert(row.round, value);
        }
        columns.sort_by_key(|name| place(name));
        Values { programs, columns, of }
    }

    fn middle(&self, program: &str, column: &str) -> Option<f64> {
        median(&self.of.get(&(program, column))?.values().copied().collect::<Vec<_>>())
    }

    /// The best of those that somebody would choose instead of ours; without any the first column.
    fn best(&self, program: &str) -> Option<(&'a str, f64)> {
        let value = |name: &&'a str| Some((*name, self.middle(program, name)?));
        let peers = self.columns.iter().filter(|name| is_peer(name)).filter_map(value);
        peers.min_by(|one, other| one.1.total_cmp(&other.1)).or_else(|| self.columns.iter().find_map(value))
    }

    fn ratio(&self, program: &str, column: &str) -> Option<f64> {
        ratio(self.middle(program, column)?, self.best(program)?.1)
    }
}

/// The order of the declared, and behind them all others.
fn place(name: &str) -> usize {
    let preload = ALLOCATORS.iter().position(|known| known.name == name);
    let global = || CRATES.iter().position(|(known, _)| *known == name).map(|at| at + ALLOCATORS.len());
    preload.or_else(global).unwrap_or(usize::MAX)
}

fn is_peer(name: &str) -> bool {
    let is_crate = CRATES.iter().any(|(known, _)| *known == name);
    !name.starts_with("vcmalloc") && (is_crate || allocators::known(name).is_some_and(|known| known.is_peer))
}

fn is_in_rust(row: &Row) -> bool {
    table::all().any(|known| known.name == row.program && known.figure == Figure::Crate)
}

/// All tables; with `against` also the differences from that column, round by round.
pub fn markdown(rows: &[Row], against: Option<&str>) -> String {
    let mut text = String::new();
    for in_rust in [false, true] {
        let rows: Vec<&Row> = rows.iter().filter(|row| is_in_rust(row) == in_rust).collect();
        for quantity in &QUANTITIES {
            let values = Values::new(&rows, quantity);
            if !values.programs.is_empty() {
                text += &ratios(&values, quantity);
                text += &intervals(&values, quantity);
                text += &against.map_or_else(String::new, |against| differences(&values, quantity, against));
            }
        }
    }
    for row in rows.iter().filter(|row| !row.is_finished()) {
        text += &format!("- {} on {} does not count: {}\n", row.program, row.allocator, row.outcome);
    }
    text
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn head(first: &str, columns: &[&str]) -> String {
    line([first.to_owned()].into_iter().chain(columns.iter().map(|name| (*name).to_owned())))
}

fn ratios(values: &Values, quantity: &Quantity) -> String {
    let columns = &values.columns;
    let mut text = head(&format!("{}, best peer {} | best peer", quantity.title, quantity.unit), columns);
    text += &format!("|---|---|{}\n", "--:|".repeat(columns.len()));
    for program in &values.programs {
        let Some((best, value)) = values.best(program) else { continue };
        let cell = |name: &&str| match values.ratio(program, name) {
            Some(ratio) if *name == best => format!("**{ratio:.2}**"),
            Some(ratio) => format!("{ratio:.2}"),
            None => String::new(),
        };
        let first = format!("{program}: {value:.*} | {best}", quantity.decimals);
        text += &line([first].into_iter().chain(columns.iter().map(cell)));
    }
    // A mean over the programs that an allocator survived would praise it for failing.
    let of = |programs: &[&str], figure: fn(&[f64]) -> Option<f64>, digits: usize| {
        let cell = |name: &&str| {
            let ratios =
                programs.iter().map(|program| values.ratio(program, name)).collect::<Option<Vec<f64>>>();
            ratios
                .and_then(|ratios| figure(&ratios))
                .map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        columns.iter().map(cell).collect::<Vec<_>>()
    };
    for (group, programs) in groups(&values.programs) {
        let first = format!("geometric mean of {} {group} |", programs.len());
        text += &line([first].into_iter().chain(of(&programs, geometric_mean, 3)));
    }
    let all = &values.programs;
    text += &line(["**geometric mean** |".to_owned()].into_iter().chain(of(all, geometric_mean, 3)));
    text += &line(["*worst* |".to_owned()].into_iter().chain(of(all, maximum, 2)));
    text + "\n"
}

/// The rows of each group, if there are several: a mean over programs and loads answers neither question.
fn groups<'a>(programs: &[&'a str]) -> Vec<(&'static str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for program in programs {
        let group = table::group_of(program).unwrap_or("others");
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, programs)) => programs.push(program),
            None => groups.push((group, vec![program])),
        }
    }
    if groups.len() > 1 { groups } else { Vec::new() }
}

/// A row of ours is lost if its whole interval lies above this.
const LOST: f64 = 1.15;

/// Ours and added files over the best peer of each row, round by round, with the interval of the mean. Nothing of a single round.
fn intervals(values: &Values, quantity: &Quantity) -> String {
    let ours: Vec<&str> = values.columns.iter().filter(|name| !is_peer(name)).copied().collect();
    let mut lost = vec![0; ours.len()];
    let mut text = head(&format!("{} over the best peer, with intervals | best peer", quantity.title), &ours);
    text += &format!("|---|---|{}\n", "--:|".repeat(ours.len()));
    let before = text.len();
    for program in &values.programs {
        let Some((best, _)) = values.best(program) else { continue };
        let found: Vec<_> = ours.iter().map(|name| paired_ratio(values, program, best, name)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let mut cells = vec![format!("{program} | {best}")];
        for (found, lost) in found.iter().zip(&mut lost) {
            cells.push(found.map_or_else(String::new, |(by, low, high)| {
                let text = format!("{by:.2} ({low:.2} to {high:.2})");
                if low <= LOST {
                    return text;
                }
                *lost += 1;
                format!("**{text}**")
            }));
        }
        text += &line(cells);
    }
    if text.len() == before {
        return String::new();
    }
    let counts = lost.iter().map(|lost| lost.to_string());
    text + &line([format!("*rows whose interval lies above {LOST}* |")].into_iter().chain(counts)) + "\n"
}

/// The mean of the second column over the first in the same rounds, and its interval.
fn paired_ratio(values: &Values, program: &str, first: &str, second: &str) -> Option<(f64, f64, f64)> {
    let found = paired_difference(values, program, first, second)?;
    let (low, high) = found.interval?;
    Some((1.0 + found.by, 1.0 + low, 1.0 + high))
}

fn paired_difference(
    values: &Values,
    program: &str,
    first: &str,
    second: &str,
) -> Option<paired::Difference> {
    let (first, second) = (values.of.get(&(program, first))?, values.of.get(&(program, second))?);
    let pairs = first.iter().filter_map(|(round, value)| Some((*value, *second.get(round)?)));
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
    paired::difference(&first, &second)
}

fn differences(values: &Values, quantity: &Quantity, against: &str) -> String {
    let others: Vec<&str> = values.columns.iter().filter(|name| **name != against).copied().collect();
    if others.is_empty() {
        return String::new();
    }
    let mut text = head(&format!("{} against {against}", quantity.title), &others);
    text += &format!("|---|{}\n", "--:|".repeat(others.len()));
    for program in &values.programs {
        let cell = |name: &&str| {
            let found = paired_difference(values, program, against, name)?;
            let percent = |by: f64| format!("{:+.1}", by * 100.0);
            let interval = found
                .interval
                .map_or_else(String::new, |(low, high)| format!(" ({} to {})", percent(low), percent(high)));
            let text = format!("{} %{interval}", percent(found.by));
            Some(if found.is_shown { format!("**{text}**") } else { text })
        };
        text += &line(
            [(*program).to_owned()]
                .into_iter()
                .chain(others.iter().map(|name| cell(name).unwrap_or_default())),
        );
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(round: usize, program: &str, allocator: &str, seconds: f64) -> Row {
        let (program, allocator) = (program.to_owned(), allocator.to_owned());
        Row {
            round,
            program,
            allocator,
            user: Some(seconds),
            system: Some(0.0),
            peak_kib: Some(2048.0),
            ..Row::default()
        }
    }

    fn three(program: &str, allocator: &str, seconds: [f64; 3]) -> Vec<Row> {
        (0..3).map(|round| row(round, program, allocator, seconds[round])).collect()
    }

    #[test]
    fn a_cell_is_the_median_of_its_rounds_over_the_best_peer() {
        let rows = [
            three("lua", "glibc", [0.2, 9.0, 0.1]),
            three("lua", "vcmalloc", [0.3, 0.1, 0.3]),
            three("lua", "jemalloc", [0.4; 3]),
        ];
        let text = markdown(&rows.concat(), None);
        assert!(text.contains("| CPU, best peer ms | best peer | vcmalloc | glibc | jemalloc |\n"), "{text}");
        assert!(text.contains("| lua: 200 | glibc | 1.50 | **1.00** | 2.00 |\n"), "{text}");
    }

    #[test]
    fn an_allocator_that_failed_in_a_row_has_no_mean_and_its_reason_is_told() {
        let mut rows = [
            three("lua", "glibc", [0.2; 3]),
            three("jq", "glibc", [0.2; 3]),
            three("lua", "jemalloc", [0.1; 3]),
        ]
        .concat();
        let failed = Row {
            user: None,
            outcome: "it does not run on jemalloc".to_owned(),
            ..row(0, "jq", "jemalloc", 0.0)
        };
        rows.push(failed);
        let text = markdown(&rows, None);
        assert!(text.contains("| jq: 200 | glibc | **1.00** |  |\n"), "{text}");
        assert!(text.contains("| **geometric mean** | | 1.414 | - |\n"), "{text}");
        assert!(text.contains("- jq on jemalloc does not count: it does not run on jemalloc\n"), "{text}");
    }

    #[test]
    fn each_group_of_rows_has_a_mean_and_a_single_group_only_that_of_the_table() {
        let rows = [
            three("lua", "glibc", [0.2; 3]),
            three("lua", "vcmalloc", [0.4; 3]),
            three("numbers", "glibc", [0.2; 3]),
            three("numbers", "vcmalloc", [0.1; 3]),
        ]
        .concat();
        let text = markdown(&rows, None);
        assert!(text.contains("| geometric mean of 1 programs | | 2.000 | 1.000 |\n"), "{text}");
        assert!(text.contains("| geometric mean of 1 loads | | 0.500 | 1.000 |\n"), "{text}");
        assert!(text.contains("| **geometric mean** | | 1.000 | 1.000 |\n"), "{text}");
        assert!(!markdown(&rows[..6], None).contains("geometric mean of"), "{text}");
    }

    #[test]
    fn a_row_of_ours_is_lost_if_its_whole_interval_is_above_the_limit() {
        let rows = [
            three("lua", "glibc", [0.2, 0.3, 0.4]),
            three("lua", "vcmalloc", [0.4, 0.6, 0.8]),
            three("jq", "glibc", [0.2; 3]),
            three("jq", "vcmalloc", [0.1, 0.2, 0.6]),
        ]
        .concat();
        let text = markdown(&rows, None);
        assert!(
            text.contains("| CPU over the best peer, with intervals | best peer | vcmalloc |\n"),
            "{text}"
        );
        assert!(text.contains("| lua | glibc | **2.00 (2.00 to 2.00)** |\n"), "{text}");
        assert!(text.contains("| *rows whose interval lies above 1.15* | | 1 |\n"), "{text}");
        let once: Vec<Row> = rows.into_iter().filter(|row| row.round == 0).collect();
        assert!(!markdown(&once, None).contains("with intervals"));
    }

    #[test]
    fn differences_are_of_the_same_rounds() {
        let rows =
            [three("lua", "vcmalloc", [0.1, 0.2, 0.4]), three("lua", "vcmalloc-hardened", [0.2, 0.4, 0.8])]
                .concat();
        let text = markdown(&rows, Some("vcmalloc"));
        assert!(text.contains("| CPU against vcmalloc | vcmalloc-hardened |\n"), "{text}");
        assert!(text.contains("| lua | **+100.0 % (+100.0 to +100.0)** |\n"), "{text}");
    }
}
