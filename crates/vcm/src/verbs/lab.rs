//! `vcm lab`: hands what was typed to the labs, and their ending to the shell.

use crate::cli::lab::{Chosen, LabVerb};
use crate::library;
use crate::page::Page;
use crate::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};
use serde_json::json;
use std::path::{Path, PathBuf};
use vcm_labs::engine::request::is_not_understood;
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
            request.library = found(library.as_deref(), request.action == "down")?;
            run::act(lab, *request)
        }
        Chosen::Use { tool, mut request, library } => {
            request.library = found(library.as_deref(), false)?;
            run::act_tool(tool, *request)
        }
    };
    match ending {
        Ok(Ending::Done) => Ok(0),
        Ok(Ending::Void) => Ok(VOID),
        Err(error) if is_stopped(&error) => Err(Failure::new(INTERRUPTED, format!("{error:#}"))),
        Err(error) if is_not_understood(&error) => Err(Failure::new(NOT_UNDERSTOOD, format!("{error:#}"))),
        Err(error) => Err(Failure::new(FAILURE, format!("{error:#}"))),
    }
}

/// Not finding it fails only what needs it, unless it was named; `down` goes on in any case.
fn found(asked_for: Option<&Path>, goes_down: bool) -> Result<Result<PathBuf, String>, Failure> {
    match library::find(asked_for, false) {
        Ok(library) => Ok(Ok(library.path)),
        Err(failure) if asked_for.is_none() || goes_down => Ok(Err(failure.message)),
        Err(failure) => Err(Failure::new(FAILURE, failure.message)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use vcm_labs::engine::request::Request;

    #[test]
    fn what_cannot_be_meant_ends_with_2_and_starts_nothing() {
        let ground = tempfile::tempdir().unwrap();
        let state = ground.path().join("state");
        let code = |action: &str, allocator: Option<&str>, (name, value): (&str, &str)| {
            let lab = *LABS.iter().find(|lab| lab.name == "ceph").unwrap();
            let request = Box::new(Request {
                action: action.to_owned(),
                allocators: allocator.map(str::to_owned).into_iter().collect(),
                settings: [(name.to_owned(), value.to_owned())].into(),
                state: state.clone(),
                ..Request::default()
            });
            super::lab(LabVerb { chosen: Chosen::Act { lab, request, library: None } }).unwrap_err().code
        };
        let osds = ("osds", "3");
        assert_eq!(code("thread-cash", None, osds), NOT_UNDERSTOOD);
        assert_eq!(code("thread-cache", Some("foo"), osds), NOT_UNDERSTOOD);
        assert_eq!(code("up", None, ("osds", "0")), NOT_UNDERSTOOD);
        assert_eq!(code("run", None, ("pool", "x")), NOT_UNDERSTOOD);
        assert!(!state.exists());
        assert_eq!(code("run", None, ("seconds", "10")), FAILURE, "no cluster is up");
    }
}
