//! `vcm lab`: hands what was typed to the labs, and their ending to the shell.

use crate::cli::Cli;
use crate::cli::lab::{Chosen, LabVerb};
use crate::library::{self, Library};
use crate::page::Page;
use crate::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};
use clap::CommandFactory;
use serde_json::json;
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::process::Command;
use vcm_foreign::Shown;
use vcm_labs::engine::experiment::{Experiment, Report};
use vcm_labs::engine::request::Request;
use vcm_labs::engine::run::{self, Ending};
use vcm_labs::engine::stop::is_stopped;
use vcm_labs::engine::understood::is_not_understood;
use vcm_labs::{LABS, Lab};

/// The run was made, but its controls were not seen.
const VOID: u8 = 3;
/// The code by which a shell tells that SIGINT ended a program.
const INTERRUPTED: u8 = 130;

pub fn lab(verb: LabVerb) -> Outcome {
    let ending = match verb.chosen {
        Chosen::List { json: true, .. } => return list_as_json(),
        Chosen::List { long, .. } => return list(long),
        Chosen::LibraryVersion => return own_library_version(),
        Chosen::Act { lab, request, .. } if request.action.is_empty() => return Err(which_one(lab)),
        Chosen::Act { lab, mut request, library } => {
            find_libraries(&mut request, library.as_deref())?;
            run::act(lab, *request)
        }
        Chosen::Use { tool, mut request, library } => {
            find_libraries(&mut request, library.as_deref())?;
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

/// The name of gperftools' library that Ceph's daemons are linked with.
const STAND_IN: &str = "libtcmalloc.so.4";

/// The libraries that `vcm run` would take. Not finding one fails only what needs it, unless it was named; `down`
/// goes on in any case.
fn find_libraries(request: &mut Request, asked_for: Option<&Path>) -> Result<(), Failure> {
    let version = Cli::command().render_version();
    version.trim().trim_start_matches("vcm ").clone_into(&mut request.tool_version);
    match library::find(asked_for, false) {
        Ok(library) => {
            request.stand_in = match library.stand_in_for([STAND_IN]) {
                Some(stand_in) => Ok(stand_in.path),
                None => Err(no_stand_in(&library)),
            };
            request.library_version = version_of(&library.path);
            request.library = Ok(library.path);
        }
        Err(failure) if asked_for.is_none() || request.action == "down" => {
            request.stand_in = Err(failure.message.clone());
            request.library = Err(failure.message);
        }
        Err(failure) => return Err(Failure::new(FAILURE, failure.message)),
    }
    Ok(())
}

fn no_stand_in(library: &Library) -> String {
    let name = STAND_IN;
    let folder = library.path.parent().unwrap_or(Path::new("/")).shown();
    format!(
        "vcmalloc's {name} was not found, and a daemon that is linked with TCMalloc needs it. Looked at:\n  \
         {folder}/{name}\n  {folder}/vcmalloc/{name}\n'make build' makes it and 'make install' puts it there; or name \
         the libvcmalloc.so that it lies beside: --library PATH"
    )
}

/// The library's own version: this program, started on it, asks.
fn version_of(library: &Path) -> Option<String> {
    let own = std::env::current_exe().ok()?;
    let said = Command::new(own).args(["lab", "library-version"]).env("LD_PRELOAD", library).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn own_library_version() -> Outcome {
    // SAFETY: looks a name up among what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"vcm_version".as_ptr()) };
    if found.is_null() {
        return Err(Failure::new(FAILURE, "vcm does not run on vcmalloc"));
    }
    // SAFETY: vcmalloc.h declares it so, and what it returns is a text that stays.
    let version = unsafe {
        let version: extern "C" fn() -> *const c_char = std::mem::transmute(found);
        CStr::from_ptr(version())
    };
    say::result(&format!("{}\n", version.to_bytes().shown()))
}

/// The words that can be typed after the name of a lab.
fn which_one(lab: &Lab) -> Failure {
    let one = |experiment: &&Experiment| format!("  {:<16} {}\n", experiment.name, experiment.title);
    let experiments: String = lab.experiments.iter().map(one).collect();
    Failure::new(
        NOT_UNDERSTOOD,
        format!("lab {0}: which one?\n{experiments}  {1:<16} a cluster by itself", lab.name, "up, run, down"),
    )
}

fn list_as_json() -> Outcome {
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
fn list(long: bool) -> Outcome {
    let mut page = Page::new();
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
        page.line("What each asks and what was found: vcm lab list --long");
    }
    say::result(&page.into_text())
}

fn whose(experiment: &Experiment) -> String {
    let reports = experiment.reports.iter().filter(|report| !report.who.starts_with("our own"));
    reports.map(|report| format!("{} ({})", report.who, report.year)).collect::<Vec<_>>().join("; ")
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
