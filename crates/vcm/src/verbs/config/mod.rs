//! `vcm config`: the options, the values that a program would get, and those that a process was started with.

mod effective;
mod list;
mod markdown;
mod process;

use crate::cli::Config;
use crate::config_file;
use serde::Serialize;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, Outcome};

pub fn config(arguments: Config) -> Outcome {
    if arguments.markdown {
        return say::result(&markdown::page());
    }
    if let Some(file) = &arguments.file {
        readable(file)?;
    }
    if let Some(id) = arguments.pid {
        return process::show(id, arguments.file, arguments.json);
    }
    if arguments.file.is_some() || arguments.program.is_some() {
        return effective::show(arguments.file, arguments.program, arguments.json);
    }
    if arguments.json { json(&list::entries()) } else { say::result(&list::text()) }
}

/// A file that was named here must be there and be one; a file that the environment names is the library's to warn of.
fn readable(file: &Path) -> Result<(), Failure> {
    let look = config_file::read(file).map(drop);
    look.map_err(|error| Failure::new(FAILURE, format!("--file {}: cannot be read: {error}", file.shown())))
}

fn json<T: Serialize>(value: &T) -> Outcome {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(FAILURE, format!("cannot write JSON: {error}")))?;
    say::result(&(text + "\n"))
}
