//! The results as one web page that needs no other file and no network.

use super::markdown::{verdict, what_was_run};
use super::picture::Drawn;
use super::tables::{Table, Value, tables};
use super::{answer, said};
use crate::engine::experiment::Experiment;
use crate::engine::results::{Judged, Results};
use vcm_report::{Cell, Column, Page, Part, Row, Tone};

pub fn page(experiment: &Experiment, results: &Results, pictures: &[Drawn]) -> String {
    let is_void = !results.verdict.void.is_empty();
    let mut parts: Vec<Part> = said::sizes(experiment, results).map(Part::Text).into_iter().collect();
    parts.push(Part::Note(what_was_run(results)));
    if !is_void {
        parts.extend(judged("What this project says", &results.verdict.claims, "at most"));
        parts.extend(pictures.first().map(figure));
    }
    parts.push(Part::Heading("What was reported".to_owned()));
    parts.extend(experiment.reports.iter().map(|report| Part::Said {
        who: format!("{}, {}.", report.who, report.year),
        text: report.found.to_owned(),
        link: report.source.to_owned(),
    }));
    parts.push(Part::Said {
        who: "What was different then.".to_owned(),
        text: experiment.then.to_owned(),
        link: String::new(),
    });
    parts.push(Part::Heading("Measurements".to_owned()));
    parts.extend(measured(experiment, results, pictures));
    parts.extend(judged("Positive controls", &results.verdict.controls, "at least"));
    parts.extend(list("Notes", &results.notes));
    parts.extend(list("Cells that failed", &results.failures));
    parts.extend(list("Allocators", &meanings(results)));
    parts.push(Part::Heading("How".to_owned()));
    parts.push(Part::Code { what: results.date.clone(), text: results.command.clone() });
    parts.push(Part::Facts(
        results.versions.iter().map(|(name, version)| (name.clone(), version.clone())).collect(),
    ));
    Page {
        title: results.title.clone(),
        about: experiment.question.to_owned(),
        outcome: answer::in_sentences(experiment, results),
        parts,
    }
    .html()
}

fn measured(experiment: &Experiment, results: &Results, pictures: &[Drawn]) -> Vec<Part> {
    if !results.verdict.void.is_empty() {
        return vec![Part::Void {
            text: "The numbers of this run mean nothing, because:".to_owned(),
            reasons: results.verdict.void.clone(),
            more: "The rows are in the JSON all the same.".to_owned(),
        }];
    }
    let mut parts: Vec<Part> = pictures.iter().skip(1).map(figure).collect();
    if !experiment.steps.is_empty() {
        let steps = experiment.steps.iter().map(|step| format!("{}: {}", step.name, step.what));
        parts.push(Part::List(steps.collect()));
    }
    let tables = tables(experiment, results);
    if !tables.is_empty() {
        parts.push(Part::Heading("All numbers".to_owned()));
    }
    if tables.iter().any(Table::has_report) {
        parts.push(Part::Note("In brackets: the report's number.".to_owned()));
    }
    parts.extend(tables.iter().map(|table| Part::Table(one_table(table))));
    parts
}

fn figure(picture: &Drawn) -> Part {
    let mut chart = picture.chart.clone();
    if picture.has_report {
        chart.note = "A line across a bar: the report's number.".to_owned();
    }
    Part::Chart(chart)
}

fn one_table(table: &Table) -> vcm_report::Table {
    let keys = table.keys.iter().map(Column::text);
    let columns = table.columns.iter().map(Column::number);
    let row = |line: &super::tables::Line| Row {
        is_marked: line.keys.last().is_some_and(|name| name.starts_with("vcmalloc")),
        ..Row::of(line.keys.iter().map(Cell::text).chain(line.values.iter().map(cell)).collect())
    };
    vcm_report::Table {
        title: table.title.clone(),
        columns: keys.chain(columns).collect(),
        rows: table.lines.iter().map(row).collect(),
    }
}

fn cell(value: &Option<Value>) -> Cell {
    let Some(value) = value else { return Cell::none() };
    Cell {
        aside: value.report_text().map_or(String::new(), |report| format!("[{report}]")),
        below: value.range().map_or(String::new(), |(least, greatest)| format!("{least} to {greatest}")),
        ..Cell::number(value.median, value.middle())
    }
}

fn judged(head: &str, all: &[Judged], word: &str) -> Vec<Part> {
    if all.is_empty() {
        return Vec::new();
    }
    let row = |one: &Judged| {
        let measured = one.measured.map_or(Cell::none(), |value| Cell::number(value, format!("{value:.2}")));
        let tone = match one.holds {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let said = Cell { tone, ..Cell::text(format!("{} ({})", verdict(one), one.remark)) };
        Row::of(vec![Cell::text(&one.what), measured, Cell::number(one.bound, one.bound.to_string()), said])
    };
    let columns =
        vec![Column::text("what"), Column::number("measured"), Column::number(word), Column::text("")];
    let rows = all.iter().map(row).collect();
    vec![
        Part::Heading(head.to_owned()),
        Part::Table(vcm_report::Table { title: String::new(), columns, rows }),
    ]
}

fn meanings(results: &Results) -> Vec<String> {
    said::allocators(results).into_iter().map(|(name, what)| format!("{name}: {what}")).collect()
}

fn list(head: &str, lines: &[String]) -> Vec<Part> {
    match lines.is_empty() {
        true => Vec::new(),
        false => vec![Part::Heading(head.to_owned()), Part::List(lines.to_vec())],
    }
}
