//! Rows summed up: one table for each measure that is shown.
//!
//! Owns which table a number stands in. A measure that was taken at several steps has a column a step; one
//! that was taken at one step has a column for each value of the last axis. A measure of all daemons together has
//! one line, not the same number for each allocator.

use crate::engine::experiment::{Experiment, Measure, Picture};
use crate::engine::results::{Results, Row};
use crate::engine::statistics::relative;
use vcm_measure::statistics::{median, range};

pub struct Table {
    pub title: String,
    /// Names of the columns that say which line it is, the allocator last.
    pub keys: Vec<String>,
    pub columns: Vec<String>,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub keys: Vec<String>,
    pub values: Vec<Option<Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
    pub count: usize,
    /// The report's number for the same thing.
    pub report: Option<f64>,
    pub digits: usize,
}

impl Value {
    /// `29.3`, or `29.3 (28.9 to 30.1)` where repetitions differ.
    pub fn text(&self) -> String {
        match self.range() {
            None => self.middle(),
            Some((least, greatest)) => format!("{} ({least} to {greatest})", self.middle()),
        }
    }

    pub fn middle(&self) -> String {
        self.rounded(self.median)
    }

    /// The least and the greatest, where repetitions differ.
    pub fn range(&self) -> Option<(String, String)> {
        let (least, greatest) = (self.rounded(self.least), self.rounded(self.greatest));
        (least != greatest).then_some((least, greatest))
    }

    fn rounded(&self, value: f64) -> String {
        let digits = self.digits;
        format!("{value:.digits$}")
    }

    pub fn report_text(&self) -> Option<String> {
        self.report.map(|value| format!("{value}"))
    }
}

impl Table {
    pub fn has_report(&self) -> bool {
        self.lines.iter().any(|line| line.values.iter().flatten().any(|value| value.report.is_some()))
    }
}

/// The key that tells the rows of one column from those of another.
enum Columns {
    Steps,
    Axis(&'static str),
}

pub fn tables(experiment: &Experiment, results: &Results) -> Vec<Table> {
    let shown = experiment.measures.iter().filter(|measure| measure.shown);
    let own = shown.filter_map(|measure| match measure.whole {
        true => table(experiment, &of_all(results), measure),
        false => table(experiment, results, measure),
    });
    ratios(experiment, results).into_iter().chain(own).collect()
}

/// How the line or bar of what all daemons did together is named.
const ALL: &str = "all together";

/// The rows of one allocator stand for those of all: each has the number of the whole.
pub fn of_all(results: &Results) -> Results {
    let first = results.allocators.iter().find(|name| results.rows.iter().any(|row| row.allocator == **name));
    let rows = results.rows.iter().filter(|row| Some(&row.allocator) == first).cloned();
    let rows = rows.map(|row| Row { allocator: ALL.to_owned(), ..row }).collect();
    Results { rows, allocators: vec![ALL.to_owned()], ..results.clone() }
}

/// The rows that a picture is limited to.
pub fn limited(rows: &[Row], picture: &Picture) -> Vec<Row> {
    let Picture::Only { axes, picture } = picture else { return rows.to_vec() };
    let fits =
        |row: &&Row| axes.iter().all(|(name, value)| row.axes.get(*name).is_some_and(|own| own == value));
    limited(&rows.iter().filter(fits).cloned().collect::<Vec<_>>(), picture)
}

/// The whole tables of which the pictures of ratios show parts: each measure once.
fn ratios(experiment: &Experiment, results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for picture in experiment.pictures {
        let Picture::Ratios { measure, over, .. } = picture.inner() else { continue };
        let Some(declared) = experiment.measure(measure).filter(|_| !known.contains(measure)) else {
            continue;
        };
        known.push(measure);
        let rows = relative(&limited(&results.rows, picture), measure, over);
        let some = Results { rows, ..results.clone() };
        let ratio = Measure { unit: "", digits: 3, ..*declared };
        let what = format!("{}: ratio to {over} in the same repetition", declared.what);
        tables.extend(table(experiment, &some, &ratio).map(|table| Table { title: what, ..table }));
    }
    tables
}

fn table(experiment: &Experiment, results: &Results, measure: &Measure) -> Option<Table> {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.values.contains_key(measure.name)).collect();
    let mut steps: Vec<&str> = rows.iter().map(|row| row.step.as_str()).collect();
    steps.sort_unstable();
    steps.dedup();
    let kind = match experiment.axes.last() {
        Some(axis) if steps.len() == 1 => Columns::Axis(axis.name),
        _ => Columns::Steps,
    };
    let column_of = |row: &Row| match kind {
        Columns::Steps => row.step.clone(),
        Columns::Axis(name) => row.axes.get(name).cloned().unwrap_or_default(),
    };
    let varied =
        experiment.axes.iter().filter(|axis| !matches!(kind, Columns::Axis(name) if name == axis.name));
    // An axis with one value says nothing in a column of its own.
    let mut keys: Vec<&str> =
        varied.map(|axis| axis.name).filter(|name| values_of(&rows, name) > 1).collect();
    keys.push("allocator");
    let key_of = |row: &Row| -> Vec<String> {
        let axis = |name: &&str| match *name {
            "allocator" => row.allocator.clone(),
            name => row.axes.get(name).cloned().unwrap_or_default(),
        };
        keys.iter().map(axis).collect()
    };
    let (mut columns, mut lines): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    for row in &rows {
        let (column, line) = (column_of(row), key_of(row));
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    order(experiment, results, &mut lines, &keys);
    let value = |line: &Vec<String>, column: &String| {
        let here = rows.iter().filter(|row| column_of(row) == *column && key_of(row) == *line);
        summed_up(experiment, measure, &here.copied().collect::<Vec<_>>())
    };
    let lines = lines
        .into_iter()
        .map(|line| Line { values: columns.iter().map(|column| value(&line, column)).collect(), keys: line });
    let unit = if measure.unit.is_empty() { String::new() } else { format!(", {}", measure.unit) };
    Some(Table {
        title: format!("{}{unit}", measure.what),
        keys: keys.iter().map(|key| key.to_string()).collect(),
        lines: lines.collect(),
        columns: columns.into_iter().map(|column| heading(&kind, column)).collect(),
    })
    .filter(|table| !table.lines.is_empty())
}

fn heading(kind: &Columns, column: String) -> String {
    match kind {
        Columns::Axis(name) => format!("{name} {column}"),
        Columns::Steps if column.is_empty() => "value".to_owned(),
        Columns::Steps => column,
    }
}

fn values_of(rows: &[&Row], axis: &str) -> usize {
    let mut values: Vec<&String> = rows.iter().filter_map(|row| row.axes.get(axis)).collect();
    values.sort_unstable();
    values.dedup();
    values.len()
}

/// As the declaration has them, not as the rotation ran them.
fn order(experiment: &Experiment, results: &Results, lines: &mut [Vec<String>], keys: &[&str]) {
    let rank = |key: &str, value: &str| match key {
        "allocator" => results.allocators.iter().position(|name| name == value),
        key => {
            let axis = experiment.axes.iter().find(|axis| axis.name == key);
            axis.and_then(|axis| axis.full.iter().chain(axis.quick).position(|known| *known == value))
        }
    };
    lines.sort_by_key(|line| -> Vec<Option<usize>> {
        keys.iter().zip(line).map(|(key, value)| rank(key, value)).collect()
    });
}

fn summed_up(experiment: &Experiment, measure: &Measure, rows: &[&Row]) -> Option<Value> {
    let values: Vec<f64> = rows.iter().filter_map(|row| row.values.get(measure.name).copied()).collect();
    let (least, greatest) = range(&values)?;
    let report = rows.first().and_then(|row| report_of(experiment, measure.name, row));
    Some(Value {
        median: median(&values)?,
        least,
        greatest,
        count: values.len(),
        report,
        digits: measure.digits,
    })
}

/// The report's number for what this row is.
pub fn report_of(experiment: &Experiment, measure: &str, row: &Row) -> Option<f64> {
    let fits = |point: &crate::engine::experiment::Point| {
        point.measure == measure
            && point.allocator == row.allocator
            && point.step == row.step
            && point.axes.iter().all(|(name, value)| row.axes.get(*name).is_some_and(|own| own == value))
    };
    experiment.figures.iter().find(|figure| fits(&figure.point)).map(|figure| figure.value)
}
