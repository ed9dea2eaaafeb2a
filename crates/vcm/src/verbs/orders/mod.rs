//! `vcm set` and `vcm release`: what a running process is asked for, and what came of it.
//!
//! How it is asked is `vcm-inspect`'s (`window::orders`); here are words and exit codes.

use crate::cli::orders::{Release, Set};
use crate::settings;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, Outcome};
use vcm_inspect::process::Process;
use vcm_inspect::window::orders::{Answer, Order, Refusal, give};
use vcm_inspect::window::{self, Seen};
use vcmalloc_core::options::SPECS;

/// The order lies there and will be done later.
const LATER: u8 = 3;
/// The janitor's thread is made and ended by the library around the heap, and which system calls are asked for is the
/// program's, which knows its filter.
const NOT_FROM_OUTSIDE: [&str; 2] = ["janitor", "system_calls"];

pub fn set(arguments: &Set) -> Outcome {
    for setting in &arguments.settings {
        check(setting)?;
    }
    let seen = seen(&arguments.target, "set")?;
    let id = seen.process.id;
    arguments.settings.iter().try_for_each(|setting| can_make(&seen.process, setting))?;
    let mut settings = arguments.settings.iter();
    let mut waits: Vec<String> = Vec::new();
    while let Some(setting) = settings.next() {
        match give(&seen, &Order::Set(setting)).map_err(|why| failure(id, &say::for_verb(&why, "set")))? {
            Answer::Done(_) => {
                say::result(&format!("{id} {}: {setting}\n", seen.name))?;
            }
            Answer::Waits(why) => waits.push(format!("{id} {setting}: {}", why.line())),
            Answer::Full(earlier) => {
                let why = earlier.line();
                let unsent = std::iter::once(setting).chain(settings);
                waits.extend(unsent.map(|setting| not_sent(id, setting, &why)));
                return Err(Failure::new(FAILURE, waits.join("\nvcm: ")));
            }
            Answer::Refused(refusal) => {
                waits.push(format!("{id} {setting}: {}", refusal.line()));
                return Err(Failure::new(FAILURE, waits.join("\nvcm: ")));
            }
        }
    }
    if waits.is_empty() { Ok(0) } else { Err(Failure::new(LATER, waits.join("\nvcm: "))) }
}

pub fn release(arguments: &Release) -> Outcome {
    let seen = seen(&arguments.target, "release")?;
    let id = seen.process.id;
    let before = seen.process.status_bytes("VmRSS");
    match give(&seen, &Order::Release(arguments.bytes))
        .map_err(|why| failure(id, &say::for_verb(&why, "release")))?
    {
        Answer::Done(bytes) => {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let mut line = format!("{id} {}: {:.1} MiB released", seen.name, mib(bytes));
            if let Some((before, after)) = before.zip(seen.process.status_bytes("VmRSS")) {
                line += &format!("; RSS {:.1} MiB, was {:.1}", mib(after), mib(before));
            }
            say::result(&(line + "\n"))
        }
        Answer::Waits(why) => Err(Failure::new(LATER, format!("{id} release: {}", why.line()))),
        Answer::Full(earlier) => Err(Failure::new(FAILURE, not_sent(id, "release", &earlier.line()))),
        Answer::Refused(refusal) => Err(failure(id, refusal.line())),
    }
}

fn seen(target: &str, verb: &str) -> Result<Seen, Failure> {
    let process = window::find(target).map_err(|line| Failure::new(FAILURE, say::for_verb(&line, verb)))?;
    let id = process.id;
    Seen::open(process).map_err(|why| failure(id, &say::for_verb(&why, verb)))
}

fn not_sent(id: i32, order: &str, why: &str) -> String {
    format!("{id} {order}: not sent: {why}")
}

fn failure(id: i32, why: &str) -> Failure {
    Failure::new(FAILURE, format!("{id} {why}"))
}

/// Last words are written when it is too late to say that there is no such folder.
fn can_make(process: &Process, setting: &str) -> Result<(), Failure> {
    let Some(path) = setting.strip_prefix("last_words=").filter(|path| path.starts_with('/')) else {
        return Ok(());
    };
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    // A name with a number or a name in it is another one for each process.
    if path.contains('%') || process.can_make_files_in(folder) != Some(false) {
        return Ok(());
    }
    let why = format!("last_words: it cannot make a file in {}", folder.shown());
    Err(failure(process.id, &why))
}

/// Finds what can be known to be wrong before anything is written.
fn check(setting: &str) -> Result<(), Failure> {
    let told = |wrong: Vec<String>| wrong.join("\n").trim_start_matches("vcmalloc: ").to_owned();
    settings::variables_of(&[setting.to_owned()]).map_err(|wrong| Failure::new(FAILURE, told(wrong)))?;
    let name = setting.split('=').next().unwrap_or_default();
    let spec = SPECS.iter().find(|spec| spec.name == name);
    if NOT_FROM_OUTSIDE.contains(&name) {
        return Err(Failure::new(
            FAILURE,
            format!("{name}: cannot be set from outside; the program may, by vcm_option_set"),
        ));
    }
    match spec {
        Some(spec) if !spec.live => {
            Err(Failure::new(FAILURE, format!("{name}: {}", Refusal::ReadOnce.line())))
        }
        _ => Ok(()),
    }
}
