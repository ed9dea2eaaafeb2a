//! `vcm completions SHELL`.

use crate::cli::{Cli, Completions};
use clap::CommandFactory;
use vcm_front::say::{self, Outcome};

pub fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "vcm", &mut script);
    say::result(&String::from_utf8_lossy(&script))
}
