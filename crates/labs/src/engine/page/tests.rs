use super::*;
use crate::engine::cell::Cell;
use crate::engine::experiment::*;
use crate::engine::results::{Row, SCHEMA};
use crate::engine::verdict::judge;
use std::collections::BTreeMap;
use vcm_measure::machine::Machine;

const fn at(allocator: &'static str, step: &'static str) -> Point {
    Point { allocator, axes: &[], step, measure: "rss" }
}

fn cell(_: &crate::engine::session::Session, _: &Cell) -> anyhow::Result<Vec<Row>> {
    Ok(Vec::new())
}

static EXPERIMENT: Experiment = DECLARED;

const DECLARED: Experiment = Experiment {
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
    measures: &[Measure {
        name: "rss",
        unit: "MiB",
        what: "resident memory",
        digits: 1,
        shown: true,
        whole: false,
    }],
    controls: &[Control {
        what: "glibc keeps it",
        higher: at("glibc", "drained"),
        lower: at("vcmalloc", "drained"),
        at_least: 1.5,
    }],
    claims: &[Claim { what: "it drains", point: at("vcmalloc", "drained"), over: None, at_most: 50.0 }],
    answer: &[Compared::allocators("memory, ours over glibc", "rss", "drained", ["vcmalloc", "glibc"])],
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
        release: String::new(),
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

fn markdown_of(results: &Results) -> String {
    markdown::page(&EXPERIMENT, results, "toy-drain", &pictures(&EXPERIMENT, results))
}

fn html_of(results: &Results) -> String {
    html::page(&EXPERIMENT, results, &pictures(&EXPERIMENT, results))
}

#[test]
fn the_page_sets_our_number_beside_the_reports_and_says_what_differed() {
    let page = html_of(&results([250.0, 251.0], [40.0, 41.0]));
    for part in
        ["250.5", "250.0 to 251.0", "[255]", "A. Nobody", "Pools were deeper.", "<svg", "vcm lab toy drain"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(page.contains("Drained &lt;pools&gt;") && !page.contains("Drained <pools>"), "escaped");
}

#[test]
fn the_page_needs_no_other_file_and_follows_light_and_dark() {
    let page = html_of(&results([250.0, 251.0], [40.0, 41.0]));
    for outside in ["src=\"", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside} is in it");
    }
    assert!(page.contains("light-dark(") && !page.contains("#000000"));
    assert!(page.contains("color-scheme: light dark"));
}

#[test]
fn a_run_that_does_not_see_the_known_cost_shows_the_reason_instead_of_numbers() {
    let results = results([60.0, 61.0], [40.0, 41.0]);
    assert_eq!(results.verdict.void.len(), 1, "{:?}", results.verdict.void);
    let pages = [html_of(&results), markdown_of(&results)];
    for page in pages.into_iter().chain([markdown::for_terminal(&EXPERIMENT, &results, 100)]) {
        assert!(page.contains("Void.") && page.contains("glibc keeps it"), "{page}");
        assert!(!page.contains("40.5") && !page.contains("<svg"), "{page}");
    }
}

#[test]
fn a_claim_that_is_missed_is_shown_as_missed() {
    let results = results([250.0, 251.0], [80.0, 81.0]);
    assert!(results.verdict.void.is_empty(), "{:?}", results.verdict.void);
    assert!(html_of(&results).contains("does not hold"));
    assert!(markdown_of(&results).contains("does not hold"));
}

#[test]
fn the_markdown_page_names_command_machine_and_raw_rows() {
    let page = markdown_of(&results([250.0, 251.0], [40.0, 41.0]));
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

#[test]
fn every_page_begins_with_the_question_the_answer_and_one_picture() {
    let results = results([250.0, 251.0], [80.0, 81.0]);
    let said = "Memory, ours over glibc: 0.32. Of 1 claim of this project: 1 missed. The first: it drains: 80.50 (50 at \
                most: does not hold).";
    let in_order = |page: &str, parts: &[&str]| {
        let places: Vec<usize> =
            parts.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("{part}: {page}"))).collect();
        assert!(places.is_sorted(), "{parts:?}: {places:?}");
    };
    in_order(&html_of(&results), &["Does it drain?", said, "What this project says", "<svg", "A. Nobody"]);
    let markdown = markdown_of(&results);
    in_order(
        &markdown,
        &[
            "Does it drain?",
            said,
            "What this project says",
            "![Memory by step](pictures/toy-drain-1.svg)",
            "<details>",
            "A. Nobody",
        ],
    );
    assert!(markdown.lines().nth(4).unwrap().starts_with(&format!("**Answer.** {said}")), "{markdown}");
    assert_eq!(markdown.matches("<details>").count(), markdown.matches("\n\n</details>").count());
    let terminal = markdown::for_terminal(&EXPERIMENT, &results, 100);
    assert!(terminal.lines().nth(3).unwrap().starts_with(said), "{terminal}");
    assert!(terminal.contains("so the numbers may be read"));
}

#[test]
fn an_answer_pairs_what_its_points_do_not_name_and_shows_how_far_the_places_lie_apart() {
    const TIERS: &[Compared] =
        &[Compared::axes("with over without", "rss", "", [&[("tier", "with")], &[("tier", "without")]])];
    let row = |allocator: &str, tier: &str, value: f64| Row {
        allocator: allocator.to_owned(),
        axes: [("tier".to_owned(), tier.to_owned())].into(),
        repetition: 0,
        step: "full".to_owned(),
        values: [("rss".to_owned(), value)].into(),
    };
    let mut results = results([250.0, 251.0], [40.0, 41.0]);
    for (allocator, with, without) in [("a", 3.0, 2.0), ("b", 4.0, 2.0), ("c", 2.0, 2.0)] {
        results.rows.extend([row(allocator, "with", with), row(allocator, "without", without)]);
    }
    results.rows.push(row("d", "with", 9.0));
    let experiment = Experiment { answer: TIERS, ..DECLARED };
    let said = answer::in_sentences(&experiment, &results);
    assert!(said.starts_with("With over without: 1.50 in the middle of 3 places, 1.00 to 2.00. "), "{said}");
    results.verdict.void.push("not seen".into());
    assert!(answer::in_sentences(&experiment, &results).starts_with("Void"));
}

#[test]
fn a_claim_about_a_size_that_was_not_run_says_so_and_the_page_says_what_was() {
    const SIZES: &[Axis] =
        &[Axis { name: "bricks", what: "", quick: &["24"], full: &["24", "120"], setup: false }];
    const LARGE: Point =
        Point { allocator: "vcmalloc", axes: &[("bricks", "120")], step: "drained", measure: "rss" };
    const CLAIMS: &[Claim] = &[Claim { what: "it drains", point: LARGE, over: None, at_most: 50.0 }];
    let experiment = Experiment { axes: SIZES, claims: CLAIMS, ..DECLARED };
    let mut results = results([250.0, 251.0], [40.0, 41.0]);
    results.rows.iter_mut().for_each(|row| drop(row.axes.insert("bricks".into(), "24".into())));
    results.verdict = judge(&experiment, &results.rows);
    let why = "not judged (it is about bricks 120, and this run had 24; --full has it)";
    let size = "This run is smaller than the full plan: bricks 24 (the full plan: 24, 120).";
    let terminal = markdown::for_terminal(&experiment, &results, 100);
    assert!(terminal.contains(why) && terminal.contains(size), "{terminal}");
    let html = html::page(&experiment, &results, &[]);
    assert!(html.contains("it is about bricks 120") && html.contains(size));
    const DRAINED: &[Claim] =
        &[Claim { what: "", point: at("mimalloc", "drained"), over: None, at_most: 50.0 }];
    let verdict = judge(&Experiment { claims: DRAINED, ..experiment }, &results.rows);
    assert_eq!(verdict.claims[0].remark, "it needs mimalloc in the run");
}

#[test]
fn brackets_are_explained_only_where_there_are_some() {
    let results = results([250.0, 251.0], [40.0, 41.0]);
    let bare = Experiment { figures: &[], ..DECLARED };
    for (experiment, explained) in [(&EXPERIMENT, true), (&bare, false)] {
        let pages = [markdown::page(experiment, &results, "x", &[]), html::page(experiment, &results, &[])];
        assert!(pages.iter().all(|page| page.contains("In brackets") == explained));
    }
}

#[test]
fn what_all_did_together_is_one_line_and_one_bar() {
    const WHOLE: &[Measure] =
        &[Measure { name: "rss", unit: "", what: "all of them", digits: 0, shown: true, whole: true }];
    let experiment = Experiment { measures: WHOLE, ..DECLARED };
    let results = results([60.0, 60.0], [60.0, 60.0]);
    let table = &tables::tables(&experiment, &results)[0];
    assert_eq!(table.lines.iter().map(|line| line.keys.concat()).collect::<Vec<_>>(), ["all together"]);
    let bars = |experiment| {
        let drawn = picture::draw(experiment, &results, &EXPERIMENT.pictures[0]);
        standing_alone(&[drawn[0].chart.clone()], 1).matches("<rect").count()
    };
    // Two steps.
    assert_eq!((bars(&EXPERIMENT), bars(&experiment)), (4, 2));
}

#[test]
fn one_value_of_an_axis_is_drawn_as_bars_and_several_as_a_line() {
    const SIZES: &[Axis] = &[Axis { name: "n", what: "", quick: &["1"], full: &["1", "2"], setup: false }];
    let experiment = Experiment { axes: SIZES, ..DECLARED };
    let line = Picture::Lines { title: "over n", measure: "rss", axis: "n", step: "full" };
    let mut results = results([250.0, 251.0], [40.0, 41.0]);
    results.rows.iter_mut().for_each(|row| drop(row.axes.insert("n".into(), "1".into())));
    let circles = |results: &Results| {
        let drawn = picture::draw(&experiment, results, &line);
        standing_alone(&[drawn[0].chart.clone()], 1).matches("<circle").count()
    };
    assert_eq!(circles(&results), 0);
    let more: Vec<Row> = results.rows.clone();
    results.rows.extend(more.into_iter().map(|row| Row { axes: [("n".into(), "2".into())].into(), ..row }));
    assert_eq!(circles(&results), 4);
}

#[test]
fn ratios_are_taken_only_of_the_rows_that_their_picture_is_limited_to() {
    const SIZES: &[Axis] =
        &[Axis { name: "n", what: "", quick: &["1", "2"], full: &["1", "2"], setup: true }];
    static RATIOS: Picture = Picture::Ratios { title: "", measure: "rss", over: "glibc", axis: "", step: "" };
    const PICTURES: &[Picture] = &[Picture::Only { axes: &[("n", "2")], picture: &RATIOS }];
    let experiment = Experiment { axes: SIZES, pictures: PICTURES, ..DECLARED };
    let mut results = results([100.0, 100.0], [50.0, 50.0]);
    let of = |row: &Row, n: &str| Row { axes: [("n".into(), n.into())].into(), ..row.clone() };
    results.rows = results.rows.iter().flat_map(|row| [of(row, "1"), of(row, "2")]).collect();
    let ratios = &tables::tables(&experiment, &results)[0];
    assert!(ratios.title.contains("ratio to glibc"), "{}", ratios.title);
    assert_eq!(ratios.lines.len(), 2, "one for each allocator, at n 2 alone");
}

#[test]
fn a_table_that_is_too_wide_loses_its_ranges_before_it_is_divided_and_no_number_is_cut() {
    let results = results([250.0, 251.0], [40.0, 41.0]);
    let longest = |width| {
        let text = markdown::for_terminal(&EXPERIMENT, &results, width);
        let table = text.lines().filter(|line| line.starts_with("  "));
        (table.map(|line| line.chars().count()).max().unwrap(), text)
    };
    let (whole, text) = longest(usize::MAX);
    assert!(text.contains("250.5 (250.0 to 251.0)"));
    let (narrower, text) = longest(whole - 1);
    assert!(narrower < whole && !text.contains(" to 251.0") && text.contains("250.5"), "{text}");
    let (divided, text) = longest(narrower - 1);
    assert!(divided < narrower && text.matches("  allocator").count() == 2, "{text}");
}

#[test]
fn what_is_between_backticks_is_code_on_the_web_page() {
    let experiment = Experiment { question: "Does `osd_memory_target` hold?", ..DECLARED };
    let page = html::page(&experiment, &results([250.0, 251.0], [40.0, 41.0]), &[]);
    assert!(page.contains("Does <code>osd_memory_target</code> hold?"), "{page}");
    let body = &page[page.find("<body>").unwrap()..];
    assert!(!body.contains('`'), "{body}");
}

#[test]
fn a_page_of_another_release_says_so_and_lies_beside_this_systems() {
    let results = Results { release: "18.2".into(), ..results([250.0, 251.0], [40.0, 41.0]) };
    assert!(markdown_of(&results).starts_with("# Drained <pools>: `vcm lab toy drain --release 18.2`\n"));
    let folder = tempfile::tempdir().unwrap();
    super::keep(folder.path(), &results).unwrap();
    assert!(folder.path().join("toy-drain-18.2.partial.json").is_file());
}
