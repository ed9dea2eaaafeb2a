//! `vcm lab`: becomes `vcm-lab`, a program of its own, where that is installed.

use crate::cli::Lab;
use std::env;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;
use vcm_foreign::Shown;
use vcm_front::say::{FAILURE, Failure, NOT_UNDERSTOOD, Outcome};

const PROGRAM: &str = "vcm-lab";

/// Returns only where it could not be started.
pub fn lab(verb: &Lab) -> Outcome {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(&verb.arguments).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => Failure::new(
            NOT_UNDERSTOOD,
            "vcm-lab is neither in the folder of this vcm nor in PATH: install the package vcmalloc-lab, or \
             build it with 'make lab'",
        ),
        _ => Failure::new(FAILURE, format!("cannot start {}: {error}", program.shown())),
    })
}
