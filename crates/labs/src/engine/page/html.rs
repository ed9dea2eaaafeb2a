//! The results as one web page that needs no other file and no network.

use super::markdown::{verdict, what_was_run};
use super::picture::Drawn;
use super::tables::{Table, Value, tables};
use crate::engine::experiment::Experiment;
use crate::engine::results::{Judged, Results};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Colours of the system, so that it follows light and dark by itself.
const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       background: Canvas; color: CanvasText; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0;
         border-bottom: 1px solid color-mix(in srgb, CanvasText 18%, Canvas); }
td.number { text-align: right; white-space: nowrap; } tr.ours { font-weight: 600; }
.report { opacity: .65; font-weight: 400; font-size: .85em; }
.holds { color: light-dark(#17743a, #6fd08e); } .missed { color: light-dark(#b3261e, #ff8a80); }
.void { border-left: .3rem solid #de4238; padding: .2rem 1rem; }
svg { width: 100%; height: auto; } figure { margin: 1rem 0 2rem; } figcaption { font-weight: 600; }
small, footer { opacity: .8; } code { font-size: .9em; } .scroll { overflow-x: auto; }
";

pub fn page(experiment: &Experiment, results: &Results, pictures: &[Drawn]) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (results.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (results.title) }
                p { (experiment.question) }
                p { small { (what_was_run(results)) } }
                h2 { "What was reported" }
                @for report in experiment.reports {
                    p { strong { (report.who) ", " (report.year) } ". " (report.found)
                        @if !report.source.is_empty() { " " a href=(report.source) { (report.source) } } }
                }
                p { strong { "What was different then." } " " (experiment.then) }
                h2 { "What was measured" }
                (measured(experiment, results, pictures))
                (judged("Positive controls", &results.verdict.controls, "at least"))
                (list("Notes", &results.notes))
                (list("Cells that failed", &results.failures))
                (footer(results))
            }
        }
    };
    markup.into_string()
}

fn measured(experiment: &Experiment, results: &Results, pictures: &[Drawn]) -> Markup {
    if !results.verdict.void.is_empty() {
        return html! {
            div.void {
                p { strong { "Void." } " The numbers of this run mean nothing, because:" }
                ul { @for reason in &results.verdict.void { li { (reason) } } }
                p { "The rows are in the JSON all the same." }
            }
        };
    }
    html! {
        @for picture in pictures {
            figure {
                figcaption { (picture.title) }
                (PreEscaped(&picture.svg))
                @if picture.has_report { small { "A line across a bar: the report's number." } }
            }
        }
        @if !experiment.steps.is_empty() {
            ul { @for step in experiment.steps { li { em { (step.name) } ": " (step.what) } } }
        }
        @for table in tables(experiment, results) { (one_table(&table)) }
        (judged("What this project says", &results.verdict.claims, "at most"))
    }
}

fn one_table(table: &Table) -> Markup {
    html! {
        h3 { (table.title) }
        div.scroll { table {
            tr {
                @for key in &table.keys { th { (key) } }
                @for column in &table.columns { th { (column) } }
            }
            @for line in &table.lines {
                @let ours = line.keys.last().is_some_and(|name| name.starts_with("vcmalloc"));
                tr.ours[ours] {
                    @for key in &line.keys { td { (key) } }
                    @for value in &line.values { td.number { (one_value(value)) } }
                }
            }
        } }
    }
}

fn one_value(value: &Option<Value>) -> Markup {
    html! {
        @match value {
            None => "-",
            Some(value) => {
                (value.text())
                @if let Some(report) = value.report_text() { " " span.report title="the report" { "[" (report) "]" } }
            }
        }
    }
}

fn judged(head: &str, all: &[Judged], word: &str) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    html! {
        h2 { (head) }
        div.scroll { table {
            tr { th { "what" } th { "measured" } th { (word) } th { "" } }
            @for one in all {
                tr {
                    td { (one.what) }
                    td.number { @match one.measured { Some(value) => { (format!("{value:.2}")) } None => "-" } }
                    td.number { (one.bound) }
                    td.holds[one.holds == Some(true)].missed[one.holds == Some(false)] {
                        (verdict(one)) " (" (one.remark) ")"
                    }
                }
            }
        } }
    }
}

fn list(head: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h2 { (head) }
            ul { @for line in lines { li { (line) } } }
        }
    }
}

fn footer(results: &Results) -> Markup {
    html! {
        footer {
            h2 { "How" }
            p { code { (results.command) } ", " (results.date) }
            @if !results.versions.is_empty() {
                p { @for (name, version) in &results.versions { (name) " " (version) "; " } }
            }
        }
    }
}
