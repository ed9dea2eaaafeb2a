//! The results as Markdown, for results, and as plain text for the terminal.

use super::picture::Drawn;
use super::tables::{Line, Table, Value, tables};
use super::{DATA, PICTURES, picture_name};
use super::{answer, said};
use crate::engine::experiment::Experiment;
use crate::engine::results::{Judged, Results};
use std::fmt::Write;
use std::ops::Range;

/// The question, the answer, the claims and one picture; long parts are folded behind them.
pub fn page(experiment: &Experiment, results: &Results, name: &str, pictures: &[Drawn]) -> String {
    let release = match results.release.as_str() {
        "" => String::new(),
        release => format!(" --release {release}"),
    };
    let mut text =
        format!("# {}: `vcm lab {} {}{release}`\n\n", results.title, results.lab, results.experiment);
    let _ = writeln!(text, "**Question.** {}\n", experiment.question);
    let _ = writeln!(text, "**Answer.** {}\n", answer::in_sentences(experiment, results));
    let _ = writeln!(text, "**Measured.** {}\n", where_and_when(results));
    if let Some(sizes) = said::sizes(experiment, results) {
        let _ = writeln!(text, "{sizes}\n");
    }
    let shown: Vec<String> =
        (0..).zip(pictures).map(|(index, picture)| image(name, index, picture)).collect();
    if !results.verdict.void.is_empty() {
        text += &void(results);
    } else {
        text += &judged("What this project says", &results.verdict.claims, "at most");
        text += shown.first().map_or("", String::as_str);
    }
    for (head, lines) in [("Notes", &results.notes), ("Cells that failed", &results.failures)] {
        if !lines.is_empty() {
            let _ = writeln!(text, "## {head}\n");
            let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
            text += &(list + "\n");
        }
    }
    text += &folded("The reports, and what was different then", &reports(experiment));
    if results.verdict.void.is_empty() {
        let rest = shown.get(1..).unwrap_or_default().concat();
        text +=
            &folded("All numbers and pictures", &(steps(experiment) + &numbers(experiment, results) + &rest));
    }
    let controls = judged("Positive controls", &results.verdict.controls, "at least");
    let what_ran =
        format!("{}\n\n{controls}{}{}", what_was_run(results), meanings(results), versions(results));
    text += &folded("What ran: controls, allocators, versions", &what_ran);
    let _ = writeln!(text, "All rows: [{name}.json]({DATA}/{name}.json).");
    text
}

fn where_and_when(results: &Results) -> String {
    let machine = &results.machine;
    let date = results.date.get(..10).unwrap_or_default();
    let library = results.versions.get("vcmalloc").map_or("not noted", String::as_str);
    format!(
        "{date}; {} x {}; {} plan, {:.0} minutes; library {library}.",
        machine.cpus,
        machine.processor,
        results.plan,
        (results.seconds / 60.0).ceil()
    )
}

fn image(name: &str, index: usize, picture: &Drawn) -> String {
    format!("![{}]({PICTURES}/{})\n\n", picture.chart.title, picture_name(name, index))
}

fn folded(head: &str, text: &str) -> String {
    format!("<details><summary>{head}</summary>\n\n{}\n\n</details>\n\n", text.trim())
}

fn reports(experiment: &Experiment) -> String {
    let mut text = String::new();
    for report in experiment.reports {
        let source = if report.source.is_empty() { String::new() } else { format!(" ({})", report.source) };
        let _ = writeln!(text, "- **{}, {}**: {}{source}", report.who, report.year, report.found);
    }
    text + &format!("\n**What was different then.** {}", experiment.then)
}

fn steps(experiment: &Experiment) -> String {
    let list: String =
        experiment.steps.iter().map(|step| format!("- *{}*: {}\n", step.name, step.what)).collect();
    list + "\n"
}

fn numbers(experiment: &Experiment, results: &Results) -> String {
    let tables = tables(experiment, results);
    let hint =
        if tables.iter().any(Table::has_report) { "In brackets: the report's number.\n\n" } else { "" };
    hint.to_owned() + &tables.iter().map(markdown_table).collect::<String>()
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

/// The outcome, then tables that fit, then each claim and what is missing: the end is what a terminal still shows.
pub fn for_terminal(experiment: &Experiment, results: &Results, width: usize) -> String {
    let mut text = format!("\n{}\n\n", results.title);
    let failures: String = results.failures.iter().map(|failure| format!("failed: {failure}\n")).collect();
    if !results.verdict.void.is_empty() {
        return text + &void(results).replace("**", "") + &failures;
    }
    let _ = writeln!(text, "{}\n", answer::in_sentences(experiment, results));
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
