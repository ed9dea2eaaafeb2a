//! The things that processes do around their heap: namespaces, credentials, system call filters, descriptors,
//! limits, signals, daemons. Every probe of `sandboxed/` passes on glibc, and so it must on each of our libraries,
//! with restartable sequences and with the locked caches.
//!
//! `PROBE_LIBRARIES=/path/to/a/folder` runs them on the libraries that lie there.

#[path = "sandboxed/on.rs"]
mod on;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use on::On;
use vcmalloc_tests::{Finished, Ground, compile, library, machine, run};

const PROGRAMS: [&str; 7] =
    ["namespaces", "credentials", "seccomp", "descriptors", "limits", "signals", "daemons"];

/// Probes that do not pass on ours and are not meant to, with the reason. Each is checked to fail: a probe that
/// passes must leave the list.
const BY_DESIGN: [(&str, &str); 3] = [
    ("threads_are_the_programs", "the janitor is a thread: once there were threads, one more is counted"),
    (
        "unshare_user_by_raw_call",
        "the C library's unshare and setns let the janitor end first; a raw call is not seen",
    ),
    (
        "single_thread_drops_for_its_process",
        "capset and prctl change the calling thread alone: the janitor keeps what the process had",
    ),
];

const LIMIT: Duration = Duration::from_secs(120);
const SKIPPED: i32 = 77;

/// One probe; its run on glibc is the control of all others.
struct Probe {
    program: &'static str,
    name: String,
    control: OnceLock<Result<Outcome, String>>,
}

#[derive(Clone)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Probes wait for signals, timers and janitors: more of them than CPUs.
    arguments.test_threads.get_or_insert(8);
    let mut trials = Vec::new();
    for program in PROGRAMS {
        match probes_of(program) {
            Ok(probes) => trials.extend(probes.into_iter().flat_map(|probe| trials_of(&Arc::new(probe)))),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let names: Vec<String> = trials.iter().map(|trial| trial.name().to_string()).collect();
    trials.push(Trial::test("the_list_of_what_is_by_design_names_probes", move || {
        let unknown = BY_DESIGN.iter().find(|(name, _)| !names.iter().any(|trial| trial.contains(name)));
        unknown.map_or(Ok(()), |(name, _)| Err(format!("BY_DESIGN names {name}, which is no probe").into()))
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A program that is told no probe names those it has.
fn probes_of(program: &'static str) -> Result<Vec<Probe>, String> {
    let listed = run(&mut command(program)?, LIMIT)?;
    let names: Vec<&str> = listed.complaints.split_whitespace().collect();
    if names.is_empty() {
        return Err(format!("{program}.c names no probes: {:?}", listed.status));
    }
    let probe = |name: &str| Probe { program, name: name.to_string(), control: OnceLock::new() };
    Ok(names.into_iter().map(probe).collect())
}

fn source(name: &str) -> PathBuf {
    library::repository().join("tests/sandboxed").join(name)
}

fn command(program: &str) -> Result<Command, String> {
    let mut flags = Vec::new();
    if program == "daemons" {
        let linked = compile::shared_library(&source("library.c"), "probe-library", &[])?;
        let folder = linked.parent().expect("a library lies in a folder");
        flags = vec![linked.display().to_string(), format!("-Wl,-rpath,{}", folder.display())];
    }
    let built = compile::program(&source(&format!("{program}.c")), Ground::Glibc, &flags)?;
    Ok(machine::command(&built))
}

fn trials_of(probe: &Arc<Probe>) -> Vec<Trial> {
    let trial = |on: On| {
        let probe = probe.clone();
        let name = format!("{}::{}::{}", probe.program, probe.name, on.name());
        Trial::test(name, move || Ok(prove(&probe, on)?))
    };
    std::iter::once(On::Glibc).chain(On::OURS).map(trial).collect()
}

fn prove(probe: &Probe, on: On) -> Result<(), String> {
    let control = probe.control.get_or_init(|| attempt(probe, On::Glibc)).clone()?;
    match control {
        Outcome::Failed(said) => return Err(format!("on glibc too: {said}")),
        Outcome::Skipped(reason) => {
            vcmalloc_tests::skip!("{}::{}: {reason}", probe.program, probe.name);
            return Ok(());
        }
        Outcome::Passed if on == On::Glibc => return Ok(()),
        Outcome::Passed => {}
    }
    let by_design = BY_DESIGN.iter().find(|(name, _)| *name == probe.name);
    match (attempt(probe, on)?, by_design) {
        (Outcome::Passed, None) | (Outcome::Failed(_), Some(_)) => Ok(()),
        (Outcome::Passed, Some((_, reason))) => {
            Err(format!("it passes, so it is not by design that {reason}"))
        }
        (Outcome::Skipped(reason), _) => Err(format!("it works on glibc here, but not on ours: {reason}")),
        (Outcome::Failed(said), None) => Err(said),
    }
}

/// Runs the probe once. The janitor is on its way often, so that what it may disturb is seen in a moment.
fn attempt(probe: &Probe, on: On) -> Result<Outcome, String> {
    let mut command = command(probe.program)?;
    on.prepare(&mut command)?;
    if on != On::Glibc && BY_DESIGN.iter().any(|(name, _)| *name == probe.name) {
        command.env("PROBE_FAILS_BY_DESIGN", "1");
    }
    command.arg(&probe.name).env("VCM_RELEASE_DELAY", "20ms");
    command.env("PROBE_PLUGIN", compile::shared_library(&source("plugin.c"), "probe-plugin", &[])?);
    // A probe that hangs is told with its stacks: as one that failed.
    let finished: Finished = match run(&mut command, machine::patience(LIMIT)) {
        Ok(finished) => finished,
        Err(hung) => return Ok(Outcome::Failed(hung)),
    };
    if finished.status.code() == Some(SKIPPED) {
        return Ok(Outcome::Skipped(finished.complaints));
    }
    Ok(match finished.succeeded() {
        Err(said) => Outcome::Failed(said),
        Ok(()) if finished.complaints.is_empty() => Outcome::Passed,
        Ok(()) => Outcome::Failed(format!("it should say nothing:\n{}", finished.complaints)),
    })
}
