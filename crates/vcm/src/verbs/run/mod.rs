//! `vcm run`: start a program on vcmalloc, pass its signals and its exit code through, verify the preload.
//!
//! ```text
//! filter     a filter of system calls that was there before us
//! watch      the verdict, from these and what could be seen before the start
//! ```

mod filter;
mod watch;

use crate::child::{self, Child, Event};
use crate::cli::{self, Run};
use crate::findings::{self, Finding, Start, Weight};
use crate::proof::Proof;
use crate::settings::{self, PROOF_VARIABLE, STATS_VARIABLE};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use vcm_foreign::Shown;
use vcm_front::library::{self, Library};
use vcm_front::say::{self, Failure, NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, Outcome};
use vcm_inspect::command::{self, Missing};
use vcm_inspect::privileges::Starter;
use vcm_inspect::root::Root;
use vcm_measure::nearest;
use watch::Watch;

const PRELOAD: &str = "LD_PRELOAD";
const FRONT: &str = "front";

pub fn run(arguments: Run) -> Outcome {
    let settings = settings_given(&arguments)?;
    let mut library = library::find(arguments.library.as_deref(), arguments.hardened)?;
    let [name, rest @ ..] = arguments.command.as_slice() else {
        return Err(Failure::new(OWN_FAILURE, "no command given"));
    };
    let search_path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let path = command::resolve(name, &search_path).map_err(|why| missing(name, &why))?;
    let root = Root::real();
    let target = command::follow(&root, path, rest, &search_path);
    let library_path = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let start = Start { root: &root, starter: Starter::this_process(), library_path: &library_path };
    let mut findings = findings::of(&target, &library, &start);
    let preloads = env::var(PRELOAD).unwrap_or_default();
    // Nobody chose the library, and the program wants the one with gperftools' or jemalloc's interface.
    if arguments.library.is_none()
        && !arguments.hardened
        && let Some(stand_in) = findings::stand_in(&library, &findings, &preloads)
    {
        library = stand_in;
        findings = findings::of(&target, &library, &start);
    }
    weigh(&arguments, name, &findings)?;

    let proof = Proof::new().map_err(|error| own_failure("the proof descriptor", &error))?;
    let mut command = Command::new(&target.path);
    let is_front_chosen = settings.iter().any(|(variable, _)| *variable == settings::variable(FRONT));
    command.arg0(name).args(rest).envs(settings);
    if !is_front_chosen {
        survive_filter(&mut command);
    }
    command.env(PRELOAD, preload_list(&library, env::var_os(PRELOAD).as_deref()));
    command.env(PROOF_VARIABLE, proof.number().to_string());
    if arguments.stats {
        command.env(STATS_VARIABLE, "1");
    }
    let child = Child::start(command).map_err(|error| not_started(&target.path, &error))?;
    let name = name.shown().printed();
    let carrier = findings::carrier(&target);
    let watch = Watch::new(child.id(), name, &library, carrier, &proof, &findings, arguments.verbose);
    supervise(child, watch, arguments.strict)
}

/// If a filter would end the program for what the caches of virtual CPUs ask, the program gets those under locks.
fn survive_filter(command: &mut Command) {
    let variable = settings::variable(FRONT);
    if env::var_os(&variable).is_some() {
        return;
    }
    if let Some(call) = filter::deadly_call() {
        say::line(&format!(
            "vcm: note: a system call filter kills callers of {call}: started with {FRONT}=locked; allow {call} \
             for the faster caches"
        ));
        command.env(variable, "locked");
    }
}

/// Waits for the end of the child and looks at it meanwhile.
fn supervise(mut child: Child, mut watch: Watch, strict: bool) -> Outcome {
    loop {
        match child.wait(watch.pause()).map_err(|error| own_failure("waiting for the command", &error))? {
            Event::TimeOut => watch.look(),
            Event::Ended(status) => {
                watch.ended();
                if strict && !watch.took_effect() {
                    return Ok(OWN_FAILURE);
                }
                return Ok(child::end_like(status));
            }
        }
    }
}

/// The variables for the options on the command line; all that are wrong are reported, and nothing is
/// started.
fn settings_given(arguments: &Run) -> Result<Vec<(String, String)>, Failure> {
    let flags = arguments.flags.0.iter().map(|(name, text)| format!("{name}={text}"));
    let given: Vec<String> = arguments.settings.iter().cloned().chain(flags).collect();
    settings::variables_of(&given).map_err(|wrong| {
        wrong.iter().for_each(|line| say::line(line));
        Failure::new(OWN_FAILURE, "nothing was started")
    })
}

/// Refuses what would do harm, and with `--strict` what cannot work; says the rest.
fn weigh(arguments: &Run, name: &OsStr, findings: &[Finding]) -> Result<(), Failure> {
    let name = name.shown().printed();
    for finding in findings {
        let refuse = match finding.weight {
            Weight::Harmful => !arguments.force,
            Weight::Prevents => arguments.strict && !arguments.force,
            Weight::Note => false,
        };
        if refuse {
            return Err(Failure::new(OWN_FAILURE, format!("{name} is not started: {}", finding.text())));
        }
        // A finding that prevents the preload is said when it has been seen to.
        if finding.weight != Weight::Prevents {
            let word = if finding.weight == Weight::Harmful { "warning" } else { "note" };
            say::line(&format!("vcm: {word}: {}", finding.text()));
        }
    }
    Ok(())
}

/// Ours first, so that its malloc is the one that is found; then what was there, without a second of ours and without
/// the jemalloc whose place ours takes.
fn preload_list(library: &Library, before: Option<&OsStr>) -> OsString {
    let mut list = library.path.clone().into_os_string();
    for path in &library.behind {
        list.push(":");
        list.push(path);
    }
    let before = before.map(OsStr::as_bytes).unwrap_or_default();
    for entry in before.split(|byte| matches!(byte, b':' | b' ')) {
        let entry = OsStr::from_bytes(entry);
        let is_there = |path: &PathBuf| entry == path;
        if !entry.is_empty()
            && !library.replaces(Path::new(entry))
            && ![&library.path, &library.real_path].into_iter().chain(&library.behind).any(is_there)
        {
            list.push(":");
            list.push(entry);
        }
    }
    list
}

fn missing(name: &OsStr, why: &Missing) -> Failure {
    let name = name.shown().printed();
    match why {
        // Unknown flags are taken for the command, whose arguments may look like anything.
        Missing::NotFound if name.starts_with('-') => {
            let flags = cli::run_flags();
            let question = nearest::question(&name, flags.iter().map(String::as_str));
            Failure::new(OWN_FAILURE, format!("{name}: no such flag{question} See 'vcm run --help'"))
        }
        Missing::NotFound => Failure::new(NOT_FOUND, format!("{name}: no such command")),
        Missing::NotExecutable(error) => {
            Failure::new(NOT_EXECUTABLE, format!("{name}: cannot be executed: {error}"))
        }
    }
}

fn not_started(path: &Path, error: &io::Error) -> Failure {
    let shown = path.shown();
    match error.kind() {
        // The file is there, so what is missing is its interpreter or loader.
        io::ErrorKind::NotFound => {
            Failure::new(NOT_FOUND, format!("{shown}: its interpreter (first line or ELF header) is missing"))
        }
        _ => Failure::new(NOT_EXECUTABLE, format!("{shown}: cannot be executed: {error}")),
    }
}

fn own_failure(what: &str, error: &io::Error) -> Failure {
    Failure::new(OWN_FAILURE, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_first_and_only_once_in_the_list() {
        let library = Library {
            path: "/opt/link.so".into(),
            real_path: "/opt/real.so".into(),
            stands_in_for: Vec::new(),
            behind: vec!["/opt/other.so".into()],
        };
        assert_eq!(preload_list(&library, None), "/opt/link.so:/opt/other.so");
        let before = OsStr::new("/a.so /opt/real.so:/opt/other.so:/opt/link.so::/b.so");
        assert_eq!(preload_list(&library, Some(before)), "/opt/link.so:/opt/other.so:/a.so:/b.so");
        let stand_in = Library { stands_in_for: vec!["libjemalloc.so.2".into()], ..library };
        let before = OsStr::new("/usr/lib/libjemalloc.so.2:/a.so");
        assert_eq!(preload_list(&stand_in, Some(before)), "/opt/link.so:/opt/other.so:/a.so");
    }
}
