//! `vcm-lab`: the labs as they are typed, `vcm lab` for short.
//!
//! ```text
//! main        hands what was typed to the labs, and their ending to the shell
//! list        what there is
//! arguments   what can be typed
//! ```

mod arguments;
mod list;

use arguments::Chosen;
use clap::error::ErrorKind;
use std::ffi::{CStr, c_char};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use vcm_foreign::Shown;
use vcm_front::library::{self, Library};
use vcm_front::manual;
use vcm_front::say::{self, FAILURE, Failure, INTERRUPTED, NOT_UNDERSTOOD, Outcome};
use vcm_labs::Lab;
use vcm_labs::engine::experiment::Experiment;
use vcm_labs::engine::request::Request;
use vcm_labs::engine::run::{self, Ending};
use vcm_labs::engine::understood::is_not_understood;
use vcm_measure::stop::is_stopped;

/// The run was made, but its controls were not seen.
const VOID: u8 = 3;

fn main() -> ExitCode {
    let outcome = match arguments::command().try_get_matches() {
        Ok(matches) => Chosen::of(&matches).map_or(Ok(NOT_UNDERSTOOD), lab),
        Err(error) => refused(&error),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say::line(&format!("vcm lab: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

/// Prints help or what is wrong with the command line.
fn refused(error: &clap::Error) -> Outcome {
    let printed = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp => say::written(printed),
        _ => Ok(NOT_UNDERSTOOD),
    }
}

fn lab(chosen: Chosen) -> Outcome {
    let ending = match chosen {
        Chosen::List { json: true, .. } => return list::as_json(),
        Chosen::List { long, .. } => return list::as_text(long),
        Chosen::LibraryVersion => return own_library_version(),
        Chosen::Completions(shell) => return completions(shell),
        Chosen::Manual(folder) => return write_manual(&folder),
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
    env!("VCMALLOC_VERSION").clone_into(&mut request.tool_version);
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
        "vcmalloc's {name} was not found, and a daemon that is linked with TCMalloc needs it. Searched:\n  \
         {folder}/{name}\n  {folder}/vcmalloc/{name}\nBuild it with 'make build' and install it with 'make \
         install', or give the libvcmalloc.so in its folder: --library PATH"
    )
}

/// The library's own version: this program, started on it, asks.
fn version_of(library: &Path) -> Option<String> {
    let own = std::env::current_exe().ok()?;
    let said = Command::new(own).arg("library-version").env("LD_PRELOAD", library).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn own_library_version() -> Outcome {
    // SAFETY: looks a name up among what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"vcm_version".as_ptr()) };
    if found.is_null() {
        return Err(Failure::new(FAILURE, "vcm-lab does not run on vcmalloc"));
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
        format!(
            "lab {0}: give an experiment:\n{experiments}  {1:<16} a cluster without an \
         experiment",
            lab.name, "up, run, down"
        ),
    )
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "vcm-lab", &mut script);
    say::result(&String::from_utf8_lossy(&script))
}

fn write_manual(folder: &Path) -> Outcome {
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(folder.join("vcm-lab.1"), page()?));
    written.map(|()| 0).map_err(|error| Failure::new(FAILURE, format!("{}: {error}", folder.shown())))
}

/// The page is in the repository: a commit's own hash cannot be in a file of it.
fn page() -> std::io::Result<Vec<u8>> {
    manual::page(arguments::command().version(env!("CARGO_PKG_VERSION")), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_repository_is_up_to_date() {
        let kept = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../man/vcm-lab.1")).unwrap_or_default();
        let is_same = kept == page().unwrap();
        assert!(
            is_same,
            "man/vcm-lab.1 is outdated; renew it: cargo run -p vcm-labs --bin vcm-lab -- man --dir man"
        );
    }
}
