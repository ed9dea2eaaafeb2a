//! The options of a running process, read from outside.
//!
//! The values in effect are in its memory. If that does not tell (another allocator, no right, nothing allocated yet),
//! and for a file that is tried, they are those of its start: its environment, and the config file as it is now.

use super::effective::{Value, table, values, values_without_environment};
use super::json;
use crate::automatic::Automatic;
use crate::config_file::ConfigFile;
use crate::settings::{self, Effective};
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, Outcome};
use vcm_inspect::loaded::REPLACED;
use vcm_inspect::process::Process;
use vcm_inspect::start::StartName;
use vcm_inspect::variables::Variables;
use vcm_inspect::{allocator, loaded, privileges};

/// The kernel tells the time of booting in whole seconds.
const START_IS_KNOWN_TO: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Answer {
    pid: i32,
    program: String,
    name: String,
    /// The file through which vcmalloc is in the process; none if it is not.
    library: Option<String>,
    /// The options are those of its heap at this moment, whoever set them; else those that it was started with.
    in_effect: bool,
    file: String,
    file_read: bool,
    options: Vec<Value>,
    warnings: Vec<String>,
}

pub fn show(id: i32, file: Option<PathBuf>, as_json: bool) -> Outcome {
    let process = Process::new(id);
    let answer = answer(&process, file).map_err(|error| refused(&process, &error))?;
    if as_json {
        return json(&answer);
    }
    answer.warnings.iter().for_each(|warning| say::line(&format!("vcm: warning: {warning}")));
    let library = match answer.library.as_deref() {
        None if answer.in_effect => "Only its Rust code runs on vcmalloc. In effect there now:".to_string(),
        None => {
            "It does not run on vcmalloc. Settings that the library would have had at its start:".to_string()
        }
        Some(library) if answer.in_effect => format!("It runs on {library}. Settings in effect:"),
        Some(library) => format!("It runs on {library}. Settings at its start:"),
    };
    let head = format!("Process {id}, {} ({})\n{library}\n\n", answer.name, answer.program);
    let tail = "\nLater changes ('vcm set', the C API) are not shown.\n";
    let tail = if answer.in_effect { "" } else { tail };
    say::result(&(head + &table(&answer.options) + tail))
}

fn answer(process: &Process, file: Option<PathBuf>) -> io::Result<Answer> {
    let StartName { name, now } = process.name_at_start()?;
    let Variables { pairs: environment, is_of_now } = process.variables()?;
    let program = process.program()?;
    let library = library_in(process, &environment)?;
    // A file that is tried counts as if the process could read it, and is in effect nowhere yet.
    let is_tried = file.is_some();
    let file = file.map_or_else(|| ConfigFile::of_process(process, &environment), ConfigFile::named);
    let mut effective = Effective::of_process(process, &environment, file, name.as_bytes());
    let in_effect = !is_tried && effective.take_from(process);
    let automatic = if in_effect { Automatic::in_effect(process) } else { Automatic::of(process) };
    let mut warnings = effective.warnings.clone();
    warnings.extend(now.map(|now| settings::renamed(name.as_bytes(), now.as_bytes())));
    if in_effect {
        // It does not depend on what can be seen of the start.
    } else if environment.is_empty() {
        let why = "its environment is empty: it was started without one, or cleared it; values that variables \
         may have set are unknown";
        warnings.push(why.into());
    } else if is_of_now {
        let why = "it wrote its title over the environment of its start (as redis and postgres do): these are \
         its present variables";
        warnings.push(why.into());
    }
    let depends = !in_effect && environment.is_empty() && !process.was_privileged();
    let values = if depends { values_without_environment } else { values };
    let changed = std::fs::metadata(&effective.file).and_then(|file| file.modified()).ok();
    let settled = process.started().map(|started| started + START_IS_KNOWN_TO);
    if effective.file_read && changed > settled {
        warnings.push(format!("{} has changed since the process was started", effective.file.shown()));
    }
    if library.as_deref().is_some_and(is_replaced) {
        warnings.push("the library file was replaced; a restart loads the new one".into());
    }
    Ok(Answer {
        pid: process.id,
        program: program.shown().to_string(),
        name: name.printed(),
        library: library.map(|path| path.shown().to_string()),
        in_effect,
        file: effective.file.shown().to_string(),
        file_read: effective.file_read,
        options: values(&effective, &automatic),
        warnings,
    })
}

fn is_replaced(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(REPLACED.as_bytes())
}

/// The file through which vcmalloc serves the process: a library of ours, or the program itself.
fn library_in(process: &Process, environment: &[(OsString, OsString)]) -> io::Result<Option<PathBuf>> {
    let serving = allocator::of(&loaded::of(process, Some(environment))?).serving;
    if let Some(ours) = serving.filter(|serving| serving.kind.is_ours()) {
        let end = if ours.is_replaced { REPLACED } else { "" };
        let mut shown = ours.object.into_os_string();
        shown.push(end);
        return Ok(Some(shown.into()));
    }
    // Without the right to read a file that was replaced, its name is all there is.
    let by_name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"libvcmalloc") && is_replaced(path)
    };
    Ok(process.mapped_files()?.into_iter().find(by_name))
}

fn refused(process: &Process, error: &io::Error) -> Failure {
    let id = process.id;
    let message = match (process.condition().why_not_seen(), error.kind()) {
        (Some(why), _) => format!("{id} {why}"),
        (None, io::ErrorKind::PermissionDenied) => {
            format!("{id}: no permission to read it ({})", privileges::how_to_see_more())
        }
        _ => format!("{id}: {error}"),
    };
    Failure::new(FAILURE, message)
}
