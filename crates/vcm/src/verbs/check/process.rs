//! A running process, judged by what it has mapped and in which order the loader looked there.

use super::Verdict;
use std::io::{self, ErrorKind};
use std::time::Duration;
use vcm_foreign::{Shown, Text};
use vcm_front::say;
use vcm_inspect::allocator::{self, Allocator, Answer, Certainty};
use vcm_inspect::loaded::{self, Loaded};
use vcm_inspect::process::Process;
use vcm_inspect::window;

/// systemd sets a sandbox up meanwhile, which takes time where the machine is busy.
const UNTIL_EXEC: Duration = Duration::from_secs(10);

pub fn judge(id: i32) -> Verdict {
    let process = Process::new(id);
    if !process.is_alive() {
        return Verdict::NotKnown(format!("no such process: {id}"));
    }
    if !process.wait_for_exec(UNTIL_EXEC) {
        return Verdict::NotKnown(format!("process {id} has not started its program yet (systemd)"));
    }
    let name = process.name_at_start().map(|start| super::shown(&start.name));
    let shown = format!("{} (pid {id})", name.unwrap_or_default());
    match look(&process) {
        Ok(loaded) => verdict(&process, &shown, &allocator::of(&loaded), &loaded),
        Err(error) => Verdict::NotKnown(format!("{shown} {}", why(&process, &error))),
    }
}

fn look(process: &Process) -> io::Result<Loaded> {
    let variables = process.variables()?.pairs;
    loaded::of(process, Some(&variables))
}

/// The rest of a line that begins with the process.
fn why(process: &Process, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => say::for_verb(&window::why_forbidden(process), "check"),
        ErrorKind::NotFound => "cannot be inspected: it has ended, or is a kernel thread".into(),
        _ => format!("cannot be inspected: {error}"),
    }
}

fn verdict(process: &Process, shown: &str, answer: &Answer, loaded: &Loaded) -> Verdict {
    let refused = refused(process, loaded);
    let Some(serving) = &answer.serving else {
        return Verdict::NotKnown(format!("{shown}: {}{refused}", answer.evidence.join("; ")));
    };
    if !serving.kind.is_ours()
        && let Some(build) = window::rust_half(process)
    {
        return Verdict::Elsewhere(super::half(shown, &build, &named(serving)));
    }
    if !serving.kind.is_ours() {
        return Verdict::Elsewhere(format!(
            "{shown} does not run on vcmalloc: its malloc is {}{refused}",
            named(serving)
        ));
    }
    if answer.certainty != Certainty::Certain {
        return Verdict::NotKnown(format!(
            "{shown} has {} loaded; whether it calls its malloc is unknown: {}",
            named(serving),
            answer.evidence.join("; ")
        ));
    }
    let program = loaded.objects.first().and_then(|program| program.elf.as_ref());
    if let Some((symbol, name)) = program.and_then(|elf| elf.private_copy())
        && !program.is_some_and(|elf| elf.defines("malloc"))
    {
        return Verdict::Elsewhere(format!(
            "{shown} runs only partly on vcmalloc: it contains {name} as {symbol}, which a preload does not \
             replace"
        ));
    }
    let replaced = if serving.is_replaced { "; the file was replaced" } else { "" };
    // The loader's order of lookup holds for mallctl as for malloc.
    let mallctl = match &answer.answers_mallctl {
        Some(object) if *object == serving.object => "; mallctl is answered by the same file".into(),
        Some(_) => answer.mallctl_elsewhere().map_or(String::new(), |words| format!("; {words}")),
        None => String::new(),
    };
    Verdict::Ours(format!("{shown} runs on {}{replaced}{mallctl}", named(serving)))
}

/// Name, version and file.
fn named(allocator: &Allocator) -> String {
    let version = allocator.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    format!("{}{version}, {}", allocator.kind.name(), allocator.object.shown())
}

/// The preloads that are not in the process, and what their files show.
fn refused(process: &Process, loaded: &Loaded) -> String {
    let named = |entry: &Text| {
        let why = loaded::why_refused(process, entry);
        format!(
            ". Its LD_PRELOAD names {}, which the loader did not load: {why}",
            say::typed([entry.printed()])
        )
    };
    loaded.refused_preloads.iter().map(named).collect()
}
