//! `vcm check`: succeed only if a process, a service or a command really allocates on vcmalloc.
//!
//! ```text
//! unit       a service of systemd, by its main process; else the processes of that name
//! process    a running process, seen from outside
//! command    a command that is started for this, which the library reports from
//! ```
//!
//! Owns the verdict and its exit codes. Stricter than `vcm run`: a program that allocates elsewhere too has not passed.

mod command;
mod process;
mod unit;

use crate::cli::check::{Check, Target};
use vcm_foreign::Text;
use vcm_front::say::{self, NOT_UNDERSTOOD, Outcome};
use vcm_inspect::allocator;

/// Not on vcmalloc, or only in part.
const ELSEWHERE: u8 = 1;
/// It cannot be told.
const NOT_KNOWN: u8 = NOT_UNDERSTOOD;

/// The finding about one program, in words for its user.
pub enum Verdict {
    Ours(String),
    Elsewhere(String),
    NotKnown(String),
}

impl Verdict {
    fn code(&self) -> u8 {
        match self {
            Verdict::Ours(_) => 0,
            Verdict::Elsewhere(_) => ELSEWHERE,
            Verdict::NotKnown(_) => NOT_KNOWN,
        }
    }

    /// The same, with more words behind its own.
    fn and(mut self, more: &str) -> Verdict {
        let (Verdict::Ours(text) | Verdict::Elsewhere(text) | Verdict::NotKnown(text)) = &mut self;
        text.push_str(more);
        self
    }
}

/// A name as it is typed at a shell; one that is no text is escaped, which a shell would not undo.
fn shown(name: &Text) -> String {
    let printed = name.printed();
    if name.as_bytes() == printed.as_bytes() { say::typed([printed]) } else { printed }
}

pub fn check(arguments: &Check) -> Outcome {
    if !arguments.command.is_empty() {
        return tell(&[command::judge(&arguments.command, arguments.within)], arguments.quiet);
    }
    let judge = |target: &Target| match target {
        Target::Process(id) => vec![process::judge(*id)],
        Target::Named(name) => unit::judge(name),
    };
    let verdicts: Vec<Verdict> = arguments.targets.iter().flat_map(judge).collect();
    tell(&verdicts, arguments.quiet)
}

/// A program in Rust whose allocator is the crate, without its feature `override`.
fn half(shown: &str, build: &str, malloc: &str) -> String {
    let build = build.replace(&format!(" {}", allocator::IS_RUST_HALF), "");
    format!(
        "the Rust code of {shown} runs on vcmalloc {build}; its C and C++ code uses the malloc of {malloc} (the \
         crate's feature 'override' covers both)"
    )
}

/// The worst code counts; good verdicts go to stdout, so that the rest alone is seen where it is thrown away.
fn tell(verdicts: &[Verdict], quiet: bool) -> Outcome {
    let mut well = String::new();
    for verdict in verdicts {
        match verdict {
            Verdict::Ours(text) => well += &format!("{text}\n"),
            Verdict::Elsewhere(text) | Verdict::NotKnown(text) => say::line(&format!("vcm: {text}")),
        }
    }
    if !quiet && !well.is_empty() {
        say::result(&well)?;
    }
    Ok(verdicts.iter().map(Verdict::code).max().unwrap_or(NOT_KNOWN))
}
