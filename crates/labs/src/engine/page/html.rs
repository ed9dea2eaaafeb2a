//! The results as one web page that needs no other file and no network.

use super::markdown::{verdict, what_was_run};
use super::picture::Drawn;
use super::tables::{Table, Value, tables};
use super::{answer, said};
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
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
         border-bottom: 1px solid color-mix(in srgb, CanvasText 18%, Canvas); }
.number { text-align: right; white-space: nowrap; } th.number { white-space: normal; } tr.ours { font-weight: 600; }
.report, .range { opacity: .65; font-weight: 400; font-size: .85em; } .range { display: block; }
.outcome { font-size: 1.1rem; border-left: .3rem solid #2c7be5; padding: .2rem 1rem; }
.holds { color: light-dark(#17743a, #6fd08e); } .missed { color: light-dark(#b3261e, #ff8a80); }
.void { border-left: .3rem solid #de4238; padding: .2rem 1rem; }
svg { width: 100%; height: auto; } figure { margin: 1rem 0 2rem; } figcaption { font-weight: 600; }
small, footer { opacity: .8; } code { font-size: .9em; } 
.scroll.narrow { margin-right: 0; } .scroll { overflow-x: auto; margin-right: calc((min(62rem, 100vw) - 100vw) / 2);
          background: linear-gradient(to right, Canvas 2rem, transparent) 0 / 2rem 100% no-repeat local,
                      linear-gradient(to left, Canvas 2rem, transparent) 100% / 2rem 100% no-repeat local,
                      linear-gradient(to right, #8886, transparent) 0 / .6rem 100% no-repeat scroll,
                      linear-gradient(to left, #8886, transparent) 100% / .6rem 100% no-repeat scroll; }
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
                p { (ticked(experiment.question)) }
                p.outcome[results.verdict.void.is_empty()] { (ticked(&answer::in_sentences(experiment, results))) }
                @if let Some(sizes) = said::sizes(experiment, results) { p { (sizes) } }
                p { small { (ticked(&what_was_run(results))) } }
                @if results.verdict.void.is_empty() {
                    (judged("What this project says", &results.verdict.claims, "at most"))
                    @if let Some(picture) = pictures.first() { (figure(picture)) }
                }
                h2 { "What was reported" }
                @for report in experiment.reports {
                    p { strong { (report.who) ", " (report.year) } ". " (ticked(report.found))
                        @if !report.source.is_empty() { " " a href=(report.source) { (report.source) } } }
                }
                p { strong { "What was different then." } " " (ticked(experiment.then)) }
                h2 { "What was measured" }
                (measured(experiment, results, pictures))
                (judged("Positive controls", &results.verdict.controls, "at least"))
                (list("Notes", &results.notes))
                (list("Cells that failed", &results.failures))
                (meanings(results))
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
        @for picture in pictures.iter().skip(1) { (figure(picture)) }
        @if !experiment.steps.is_empty() {
            ul { @for step in experiment.steps { li { em { (step.name) } ": " (ticked(step.what)) } } }
        }
        @let tables = tables(experiment, results);
        @if !tables.is_empty() { h2 { "All numbers" } }
        @if tables.iter().any(Table::has_report) { p { small { "In brackets: the report's number." } } }
        @for table in &tables { (one_table(table)) }
    }
}

fn figure(picture: &Drawn) -> Markup {
    html! {
        figure {
            figcaption { (picture.title) }
            (PreEscaped(&picture.svg))
            @if picture.has_report { small { "A line across a bar: the report's number." } }
        }
    }
}

fn one_table(table: &Table) -> Markup {
    html! {
        h3 { (ticked(&table.title)) }
        div.scroll { table {
            tr {
                @for key in &table.keys { th { (key) } }
                @for column in &table.columns { th.number { (column) } }
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
                (value.middle())
                @if let Some(report) = value.report_text() { " " span.report title="the report" { "[" (report) "]" } }
                @if let Some((least, greatest)) = value.range() { span.range { (least) " to " (greatest) } }
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
        div.scroll.narrow { table {
            tr { th { "what" } th.number { "measured" } th.number { (word) } th { "" } }
            @for one in all {
                tr {
                    td { (ticked(&one.what)) }
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

/// What is between two backticks is code, as in Markdown.
fn ticked(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn meanings(results: &Results) -> Markup {
    html! {
        h2 { "Allocators" }
        ul { @for (name, what) in said::allocators(results) { li { em { (name) } ": " (what) } } }
    }
}

fn list(head: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h2 { (head) }
            ul { @for line in lines { li { (ticked(line)) } } }
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
