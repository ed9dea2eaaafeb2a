//! `vcm lab`: hands what was typed to the labs, and their ending to the shell.

use crate::cli::lab::{Chosen, LabVerb};
use crate::library;
use crate::page::Page;
use crate::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};
use serde_json::json;
use std::path::{Path, PathBuf};
use vcm_labs::engine::run::{self, Ending};
use vcm_labs::engine::stop::is_stopped;
use vcm_labs::{LABS, Lab};

/// The run was made, but its controls were not seen.
const VOID: u8 = 3;
/// What a shell says of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

pub fn lab(verb: LabVerb) -> Outcome {
    let ending = match verb.chosen {
        Chosen::List { json } => return list(json),
        Chosen::Act { lab, mut request, library } => {
            if let Err(error) = check_names(lab, &request.action) {
                return Err(Failure::new(NOT_UNDERSTOOD, error));
            }
            request.library = found(library.as_deref());
            run::act(lab, *request)
        }
        Chosen::Use { tool, mut request, library } => {
            request.library = found(library.as_deref());
            run::act_tool(tool, *request)
        }
    };
    match ending {
        Ok(Ending::Done) => Ok(0),
        Ok(Ending::Void) => Ok(VOID),
        Err(error) if is_stopped(&error) => Err(Failure::new(INTERRUPTED, format!("{error:#}"))),
        Err(error) => Err(Failure::new(FAILURE, format!("{error:#}"))),
    }
}

fn check_names(lab: &Lab, action: &str) -> Result<(), String> {
    use vcm_labs::engine::lab::ACTIONS;
    if ACTIONS.contains(&action) {
        return Ok(());
    }
    lab.experiment(action).map(drop).map_err(|error| error.to_string())
}

/// Not finding it fails only what needs it: `down` does not.
fn found(asked_for: Option<&Path>) -> Result<PathBuf, String> {
    library::find(asked_for, false).map(|library| library.path).map_err(|failure| failure.message)
}

fn list(as_json: bool) -> Outcome {
    if as_json {
        let experiments = |lab: &Lab| -> Vec<_> {
            let one = |experiment: &&vcm_labs::engine::experiment::Experiment| {
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
        return say::result(&format!("{:#}\n", json!(labs)));
    }
    let mut page = Page::new();
    for lab in LABS {
        page.paragraph("", &format!("{}: {}", lab.name, lab.what));
        for experiment in lab.experiments {
            page.line(&format!("\n  vcm lab {} {}", lab.name, experiment.name));
            let mut put = |paragraph: &str| page.wrapped("    ", "      ", paragraph);
            put(experiment.title);
            put(experiment.question);
            for report in experiment.reports {
                put(&format!("{} ({}): {}", report.who, report.year, report.found));
            }
            let (quick, full) = (experiment.quick.about, experiment.full.about);
            put(&format!("takes {quick} with --quick, {full} with --full"));
        }
        page.line("");
    }
    say::result(&page.into_text())
}
