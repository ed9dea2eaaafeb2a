//! The library's system calls, traced on every path and held against the list in
//! docs/reference/system-calls.md, by which people write filters.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Trial};
use vcmalloc_tests::{Ground, compile, library, machine};

const LIST: &str = "docs/reference/system-calls.md";
/// Of tests/system_calls/paths.c.
const PATHS: [&str; 10] =
    ["start", "growth", "threads", "profile", "release", "limits", "last-words", "reports", "fork", "misuse"];
const FEW_ON: [&str; 3] = ["threads", "limits", "fork"];
/// The calls that the option `system_calls=few` leaves, and those made before it holds.
const FEW: &str = "few";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let is_missing = machine::is_other() || !can_trace();
    if is_missing {
        vcmalloc_tests::skip!("system calls are not traced: strace is missing or not permitted");
    }
    type Find = fn() -> Result<PathBuf, String>;
    let libraries: [(&str, Find); 3] =
        [("shared", library::our_shared), ("hardened", library::hardened), ("stand-in", library::stand_in)];
    let trials = libraries
        .into_iter()
        .map(|(name, find)| {
            let name = format!("every_call_of_every_path_is_in_the_list::{name}");
            Trial::test(name, move || Ok(all_are_listed(&find()?)?)).with_ignored_flag(is_missing)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn can_trace() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null());
    strace.status().is_ok_and(|status| status.success())
}

fn all_are_listed(library: &Path) -> Result<(), String> {
    let source = library::repository().join("tests/system_calls/paths.c");
    let program = compile::program(&source, Ground::Glibc, &[])?;
    let list = fs::read_to_string(library::repository().join(LIST)).map_err(|error| error.to_string())?;
    let listed = listed(&list, &|line| line.starts_with('|') || line.contains("must not kill"));
    let at_first = self::listed(&list, &|line| line.contains("must not kill"));
    if at_first.is_empty() {
        return Err(format!(
            "{LIST} has no line of calls that a filter before the program must not kill for"
        ));
    }
    let (needed, _) = list.split_once("With the option").ok_or("the list has no first table")?;
    let needed = self::listed(needed, &|line| line.starts_with('|'));
    let mut wrong = Vec::new();
    for path in PATHS {
        let own = calls(&program, path, None, &[])?;
        let few = [("VCM_SYSTEM_CALLS", FEW)];
        // Each run is traced call by call, which takes time: with the option what threads and limits do is enough.
        let ways = if FEW_ON.contains(&path) { vec![&[][..], &few] } else { vec![&[][..]] };
        for variables in ways {
            let seen = calls(&program, path, Some(library), variables)?;
            for call in seen.difference(&own) {
                let is_listed = listed.contains(call);
                // Calls that it needs at its start, and to tell of a misuse.
                let is_few = needed.contains(call)
                    || at_first.contains(call)
                    || ["write", "gettid", "getpid"].contains(&call.as_str());
                if !is_listed || (!variables.is_empty() && !is_few) {
                    wrong.push(format!("{call}: {path} {variables:?}"));
                }
            }
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{LIST} does not say that these are asked: {wrong:#?}"))
    }
}

/// The names in the lines of the list that are meant.
fn listed(list: &str, is_meant: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let marked =
        list.lines().filter(|line| is_meant(line)).flat_map(|line| line.split('`').skip(1).step_by(2));
    marked.map(str::to_owned).collect()
}

/// The names of what a run of the program asks, on the C library's malloc or on another.
fn calls(
    program: &Path,
    path: &str,
    preload: Option<&Path>,
    variables: &[(&str, &str)],
) -> Result<BTreeSet<String>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace);
    if let Some(library) = preload {
        strace.arg("-E").arg(format!("LD_PRELOAD={}", library.display()));
        strace.args(["-E", "VCM_RELEASE_DELAY=20ms"]);
    }
    variables.iter().for_each(|(name, value)| {
        strace.arg("-E").arg(format!("{name}={value}"));
    });
    if path == "last-words" {
        strace.arg("-E").arg(format!("VCM_LAST_WORDS={}", folder.path().join("words").display()));
    }
    strace.arg(program).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = strace.spawn().map_err(|error| format!("strace: {error}"))?;
    child.wait().map_err(|error| error.to_string())?;
    let text = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
    Ok(text.lines().filter_map(name).collect())
}

/// `123 mmap(NULL, ...) = 0`; a call that was interrupted is told again as `<... mmap resumed>`.
fn name(line: &str) -> Option<String> {
    let (_, call) = line.split_once(' ')?;
    let (name, _) = call.trim_start().split_once('(')?;
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_name.then(|| name.to_owned())
}
