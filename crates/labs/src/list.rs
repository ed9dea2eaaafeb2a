//! `vcm lab list`: the labs, their experiments, and the reports behind them.

use serde_json::json;
use vcm_front::page::Page;
use vcm_front::say::{self, Outcome};
use vcm_labs::engine::experiment::{Experiment, Report};
use vcm_labs::{LABS, Lab};

pub fn as_json() -> Outcome {
    let experiments = |lab: &Lab| -> Vec<_> {
        let one = |experiment: &&Experiment| {
            json!({ "name": experiment.name, "title": experiment.title, "question": experiment.question,
                    "allocators": experiment.allocators, "quick": experiment.quick.about,
                    "full": experiment.full.about })
        };
        lab.experiments.iter().map(one).collect()
    };
    let labs: Vec<_> = LABS
        .iter()
        .map(|lab| json!({ "lab": lab.name, "what": lab.what, "experiments": experiments(lab) }))
        .collect();
    say::result(&format!("{:#}\n", json!(labs)))
}

/// With `long` what each asks and what its reports found; a report that several rerun is told once.
pub fn as_text(long: bool) -> Outcome {
    let mut page = Page::of_terminal();
    let mut told: Vec<&Report> = Vec::new();
    for lab in LABS {
        page.paragraph("", &format!("{}: {}", lab.name, lab.what));
        for experiment in lab.experiments {
            let blank = if long { "\n" } else { "" };
            page.line(&format!("{blank}  vcm lab {} {}", lab.name, experiment.name));
            let mut put = |paragraph: &str| page.wrapped("    ", "      ", paragraph);
            let (quick, full) = (experiment.quick.about, experiment.full.about);
            if !long {
                put(&format!("{} ({quick}; {full} with --full)", experiment.title));
                put(&format!("after {}", whose(experiment)));
                continue;
            }
            put(experiment.title);
            put(experiment.question);
            for report in experiment.reports {
                let known = told.iter().any(|one| (one.who, one.found) == (report.who, report.found));
                let found = if known { "told before" } else { report.found };
                put(&format!("{} ({}): {found}", report.who, report.year));
                told.push(report);
            }
            put(&format!("takes {quick} with --quick, {full} with --full"));
        }
        page.line("");
    }
    if !long {
        page.line("Questions and findings: vcm lab list --long");
    }
    say::result(&page.into_text())
}

fn whose(experiment: &Experiment) -> String {
    let reports = experiment.reports.iter().filter(|report| !report.who.starts_with("our own"));
    reports.map(|report| format!("{} ({})", report.who, report.year)).collect::<Vec<_>>().join("; ")
}
