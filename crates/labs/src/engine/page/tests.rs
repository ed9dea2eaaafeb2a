use super::*;
use crate::engine::experiment::*;
use crate::engine::machine::Machine;
use crate::engine::plan::Cell;
use crate::engine::results::{Row, SCHEMA};
use crate::engine::verdict::judge;
use std::collections::BTreeMap;

const fn at(allocator: &'static str, step: &'static str) -> Point {
    Point { allocator, axes: &[], step, measure: "rss" }
}

fn cell(_: &crate::engine::session::Session, _: &Cell) -> anyhow::Result<Vec<Row>> {
    Ok(Vec::new())
}

static EXPERIMENT: Experiment = Experiment {
    name: "drain",
    title: "Drained <pools>",
    question: "Does it drain?",
    reports: &[Report { who: "A. Nobody", year: "1999", found: "it did not", source: "" }],
    then: "Pools were deeper.",
    allocators: &["glibc", "vcmalloc"],
    axes: &[],
    pairing: Pairing::Turns,
    quick: Plan { repetitions: 2, about: "" },
    full: Plan { repetitions: 2, about: "" },
    steps: &[Step { name: "full", what: "before" }, Step { name: "drained", what: "after" }],
    measures: &[Measure { name: "rss", unit: "MiB", what: "resident memory", digits: 1, shown: true }],
    controls: &[Control {
        what: "glibc keeps it",
        higher: at("glibc", "drained"),
        lower: at("vcmalloc", "drained"),
        at_least: 1.5,
    }],
    claims: &[Claim { what: "it drains", point: at("vcmalloc", "drained"), over: None, at_most: 50.0 }],
    figures: &[Figure { report: 0, point: at("glibc", "drained"), value: 255.0 }],
    pictures: &[Picture::Steps { title: "Memory by step", measure: "rss" }],
    packages: &[],
    prepare: nothing_to_prepare,
    skip: nothing_to_skip,
    cell,
};

fn results(glibc: [f64; 2], ours: [f64; 2]) -> Results {
    let row = |allocator: &str, repetition: u32, step: &str, value: f64| Row {
        allocator: allocator.to_owned(),
        axes: BTreeMap::new(),
        repetition,
        step: step.to_owned(),
        values: [("rss".to_owned(), value)].into(),
    };
    let mut rows = Vec::new();
    for (allocator, values) in [("glibc", glibc), ("vcmalloc", ours)] {
        for (repetition, value) in (0..).zip(values) {
            rows.push(row(allocator, repetition, "full", 300.0));
            rows.push(row(allocator, repetition, "drained", value));
        }
    }
    Results {
        schema: SCHEMA,
        lab: "toy".into(),
        experiment: "drain".into(),
        title: EXPERIMENT.title.into(),
        date: "2026-11-22T01:00:00+00:00".into(),
        seconds: 61.0,
        command: "vcm lab toy drain".into(),
        plan: "quick".into(),
        machine: Machine::this(),
        versions: BTreeMap::new(),
        allocators: vec!["glibc".into(), "vcmalloc".into()],
        verdict: judge(&EXPERIMENT, &rows),
        rows,
        notes: vec!["a note".into()],
        failures: Vec::new(),
    }
}

fn html_of(results: &Results) -> String {
    html::page(&EXPERIMENT, results, &pictures(&EXPERIMENT, results).unwrap())
}

#[test]
fn the_page_sets_our_number_beside_the_reports_and_says_what_differed() {
    let page = html_of(&results([250.0, 251.0], [40.0, 41.0]));
    for part in
        ["250.5 (250.0 to 251.0)", "[255]", "A. Nobody", "Pools were deeper.", "<svg", "vcm lab toy drain"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(page.contains("Drained &lt;pools&gt;") && !page.contains("Drained <pools>"), "escaped");
}

#[test]
fn the_page_needs_no_other_file_and_follows_light_and_dark() {
    let page = html_of(&results([250.0, 251.0], [40.0, 41.0]));
    for outside in ["src=\"", "<script", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside} is in it");
    }
    assert!(page.contains("currentColor") && !page.contains("#000000"));
    assert!(page.contains("color-scheme: light dark"));
}

#[test]
fn a_run_that_does_not_see_the_known_cost_shows_the_reason_instead_of_numbers() {
    let results = results([60.0, 61.0], [40.0, 41.0]);
    assert_eq!(results.verdict.void.len(), 1, "{:?}", results.verdict.void);
    let pages = [html_of(&results), markdown::page(&EXPERIMENT, &results, "toy-drain", 0)];
    for page in pages.into_iter().chain([markdown::for_terminal(&EXPERIMENT, &results)]) {
        assert!(page.contains("Void.") && page.contains("glibc keeps it"), "{page}");
        assert!(!page.contains("40.5") && !page.contains("<svg"), "{page}");
    }
}

#[test]
fn a_claim_that_is_missed_is_shown_as_missed() {
    let results = results([250.0, 251.0], [80.0, 81.0]);
    assert!(results.verdict.void.is_empty(), "{:?}", results.verdict.void);
    assert!(html_of(&results).contains("does not hold"));
    assert!(markdown::page(&EXPERIMENT, &results, "toy-drain", 1).contains("does not hold"));
}

#[test]
fn the_markdown_page_names_command_machine_and_raw_rows() {
    let page = markdown::page(&EXPERIMENT, &results([250.0, 251.0], [40.0, 41.0]), "toy-drain", 1);
    for part in ["`vcm lab toy drain`", "CPUs", "toy-drain.json", "toy-drain-1.svg", "| glibc |", "[255]"] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn results_can_be_read_back_from_their_json() {
    let results = results([250.0, 251.0], [40.0, 41.0]);
    let text = serde_json::to_string(&results).unwrap();
    let again: Results = serde_json::from_str(&text).unwrap();
    assert_eq!(again.rows, results.rows);
    assert_eq!(again.schema, SCHEMA);
}
