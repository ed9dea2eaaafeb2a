//! `vcm lab`: becomes `vcm-lab`, a program of its own, where that is installed.

use crate::cli::Lab;
use std::env;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};

const PROGRAM: &str = "vcm-lab";
const MISSING: &str = "vcm-lab is neither in the folder of this vcm nor in PATH: install the package vcmalloc-lab, or build it with 'make \
 lab'";
/// The help where the program, which has its own, is missing.
const HELP: &str = "\
A lab starts real storage daemons of Ceph or GlusterFS, reruns a published experiment on each allocator in
turn, and writes a page with each result beside the published number. It touches no existing daemon or volume.

Usage: vcm lab <list|LAB EXPERIMENT|LAB up|run|down> [OPTIONS]

  vcm lab list                             experiments, their reports and durations
  vcm lab ceph thread-cache --quick
  vcm lab gluster detach --quick           some minutes; a table at the end
";

/// Returns only where it could not be started.
pub fn lab(verb: &Lab) -> Outcome {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(&verb.arguments).exec();
    Err(match error.kind() {
        ErrorKind::NotFound if verb.arguments.iter().any(|word| word == "--help" || word == "-h") => {
            return say::result(&format!("{HELP}\n{MISSING}.\n"));
        }
        ErrorKind::NotFound if verb.arguments.is_empty() => {
            Failure::new(NOT_UNDERSTOOD, format!("{MISSING}\n\n{}", HELP.trim_end()))
        }
        ErrorKind::NotFound => Failure::new(NOT_UNDERSTOOD, MISSING),
        _ => Failure::new(FAILURE, format!("cannot start {}: {error}", program.shown())),
    })
}
