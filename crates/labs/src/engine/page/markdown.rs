//! The results as Markdown, for docs/results, and as plain text for the terminal.

use super::picture_name;
use super::said;
use super::tables::{Line, Table, Value, tables};
use crate::engine::experiment::Experiment;
use crate::engine::results::{Judged, Results};
use std::fmt::Write;
use std::ops::Range;

pub fn page(experiment: &Experiment, results: &Results, name: &str, pictures: usize) -> String {
    let mut text = format!("# {}: `vcm lab {} {}`\n\n", results.title, results.lab, results.experiment);
    let _ = writeln!(text, "**{}**\n", said::outcome(results));
    let _ = writeln!(text, "{}\n", experiment.question);
    if let Some(sizes) = said::sizes(experiment, results) {
        let _ = writeln!(text, "{sizes}\n");
    }
    let _ = writeln!(text, "{}\n", what_was_run(results));
    text += "## The reports\n\n";
    for report in experiment.reports {
        let source = if report.source.is_empty() { String::new() } else { format!(" ({})", report.source) };
        let _ = writeln!(text, "- **{}, {}**: {}{source}", report.who, report.year, report.found);
    }
    let _ = writeln!(text, "\n**What was different then.** {}\n", experiment.then);
    text += "## What was measured\n\n";
    if !results.verdict.void.is_empty() {
        text += &void(results);
    } else {
        for index in 0..pictures {
            let _ = writeln!(text, "![{}]({})\n", results.title, picture_name(name, index));
        }
        for step in experiment.steps {
            let _ = writeln!(text, "- *{}*: {}", step.name, step.what);
        }
        let tables = tables(experiment, results);
        text += match tables.iter().any(Table::has_report) {
            true => "\nIn brackets: the report's number.\n\n",
            false => "\n",
        };
        tables.iter().for_each(|table| text += &markdown_table(table));
        text += &judged("What this project says", &results.verdict.claims, "at most");
    }
    text += &judged("Positive controls", &results.verdict.controls, "at least");
    for (head, lines) in [("Notes", &results.notes), ("Cells that failed", &results.failures)] {
        if !lines.is_empty() {
            let _ = writeln!(text, "## {head}\n");
            let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
            text += &(list + "\n");
        }
    }
    text += &meanings(results);
    text += &versions(results);
    let _ = writeln!(
        text,
        "All rows: [{name}.json]({name}.json). The same with pictures: [{name}.html]({name}.html)."
    );
    text
}

pub fn what_was_run(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "{}, `{}` ({} plan, {:.0} minutes), on {} CPUs ({}), {} GiB, {}, Linux {}.",
        results.date,
        results.command,
        results.plan,
        (results.seconds / 60.0).ceil(),
        machine.cpus,
        machine.processor,
        machine.memory_gib,
        machine.system,
        machine.kernel
    )
}

fn meanings(results: &Results) -> String {
    let one = |(name, what): (&str, &str)| format!("- *{name}*: {what}\n");
    let all: String = said::allocators(results).into_iter().map(one).collect();
    format!("## Allocators\n\n{all}\n")
}

fn versions(results: &Results) -> String {
    if results.versions.is_empty() {
        return String::new();
    }
    let list: Vec<String> =
        results.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!("Versions: {}.\n\n", list.join(", "))
}

fn void(results: &Results) -> String {
    let mut text = "**Void.** The numbers of this run mean nothing, because:\n\n".to_owned();
    for reason in &results.verdict.void {
        let _ = writeln!(text, "- {reason}");
    }
    text + "\nThe rows are in the JSON all the same.\n\n"
}

fn judged(head: &str, all: &[Judged], word: &str) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("## {head}\n\n| what | measured | {word} | |\n|---|--:|--:|---|\n");
    for one in all {
        let measured = one.measured.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let (verdict, bound) = (verdict(one), one.bound);
        let _ = writeln!(text, "| {} | {measured} | {bound} | **{verdict}** ({}) |", one.what, one.remark);
    }
    text + "\n"
}

pub fn verdict(one: &Judged) -> &'static str {
    match one.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "not judged",
    }
}

fn cells(line: &Line, text: impl Fn(&Value) -> String) -> Vec<String> {
    let value = |value: &Option<Value>| match value {
        None => "-".to_owned(),
        Some(value) => match value.report_text() {
            Some(report) => format!("{} [{report}]", text(value)),
            None => text(value),
        },
    };
    line.keys.iter().cloned().chain(line.values.iter().map(value)).collect()
}

fn markdown_table(table: &Table) -> String {
    let head: Vec<String> = table.keys.iter().chain(&table.columns).cloned().collect();
    let rule: Vec<&str> =
        table.keys.iter().map(|_| "---").chain(table.columns.iter().map(|_| "--:")).collect();
    let rule = rule.join("|");
    let mut text = format!("### {}\n\n| {} |\n|{rule}|\n", table.title, head.join(" | "));
    for line in &table.lines {
        let _ = writeln!(text, "| {} |", cells(line, Value::text).join(" | "));
    }
    text + "\n"
}

/// What came out, then tables that fit, then each claim and what is missing: the end is what a terminal still shows.
pub fn for_terminal(experiment: &Experiment, results: &Results, width: usize) -> String {
    let mut text = format!("\n{}\n\n", results.title);
    let failures: String = results.failures.iter().map(|failure| format!("failed: {failure}\n")).collect();
    if !results.verdict.void.is_empty() {
        return text + &void(results).replace("**", "") + &failures;
    }
    let _ = writeln!(text, "{}\n", said::outcome(results));
    if let Some(sizes) = said::sizes(experiment, results) {
        let _ = writeln!(text, "{sizes}\n");
    }
    for table in tables(experiment, results) {
        let hint = if table.has_report() { " [the report's number]" } else { "" };
        let _ = writeln!(text, "{}{hint}", table.title);
        text += &fitted(&table, width);
        text.push('\n');
    }
    for claim in &results.verdict.claims {
        let _ = writeln!(text, "{}", said::in_words(claim));
    }
    text + &failures
}

/// With the ranges where the lines fit with them, without where they do not, and then in parts: what a terminal
/// breaks inside a number cannot be read.
fn fitted(table: &Table, width: usize) -> String {
    let whole = 0..table.columns.len();
    let full = in_columns(&part(table, whole.clone(), Value::text));
    if fits(&full, width) {
        return full;
    }
    let middles = |value: &Value| value.middle();
    let mut begin = 0;
    let mut text = String::new();
    while begin < whole.end {
        let ends = (begin + 1..=whole.end).rev();
        let mut parts = ends.map(|end| (end, in_columns(&part(table, begin..end, middles))));
        let found = parts.find(|(end, shown)| *end == begin + 1 || fits(shown, width));
        let Some((end, shown)) = found else { break };
        text += &shown;
        begin = end;
    }
    text
}

fn fits(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

/// Some of the columns, behind the keys.
fn part(table: &Table, columns: Range<usize>, text: impl Fn(&Value) -> String + Copy) -> Vec<Vec<String>> {
    let head: Vec<String> = table.keys.iter().chain(&table.columns[columns.clone()]).cloned().collect();
    let line = |line: &Line| {
        let keys = line.keys.clone();
        cells(&Line { keys, values: line.values[columns.clone()].to_vec() }, text)
    };
    std::iter::once(head).chain(table.lines.iter().map(line)).collect()
}

fn in_columns(lines: &[Vec<String>]) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let row: Vec<String> =
            line.iter().zip(&widths).map(|(word, width)| format!("{word:<width$}")).collect();
        let _ = writeln!(text, "  {}", row.join("  ").trim_end());
    }
    text
}
