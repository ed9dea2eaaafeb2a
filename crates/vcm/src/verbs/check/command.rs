//! A command, started with the environment as it is: the library reports from it, as under `vcm run`.
//!
//! Owns the child and ends what it started, with its children.

use super::{Verdict, process};
use crate::findings::{self, Start};
use crate::proof::{Line, Proof};
use crate::settings::PROOF_VARIABLE;
use crate::signals::Held;
use nix::sys::signal::{SigmaskHow, Signal, killpg, sigprocmask};
use nix::unistd::Pid;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vcm_foreign::Shown;
use vcm_front::library::{self, Library};
use vcm_front::say;
use vcm_inspect::allocator;
use vcm_inspect::command::{self, Command as Target, Missing};
use vcm_inspect::dependencies;
use vcm_inspect::elf::{self, Depth, JEMALLOC_INTERFACE, Look};
use vcm_inspect::privileges::Starter;
use vcm_inspect::root::Root;

const PRELOAD: &str = "LD_PRELOAD";
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// From being asked to end to being ended.
const GRACE: Duration = Duration::from_secs(2);

pub fn judge(words: &[OsString], within: Duration) -> Verdict {
    let [name, rest @ ..] = words else { return Verdict::NotKnown("no command given".into()) };
    let shown = super::shown(&name.shown());
    let search_path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let path = match command::resolve(name, &search_path) {
        Ok(path) => path,
        Err(Missing::NotFound) => return Verdict::NotKnown(format!("{shown}: no such command")),
        Err(Missing::NotExecutable(error)) => {
            return Verdict::NotKnown(format!("{shown}: cannot be executed: {error}"));
        }
    };
    let target = command::follow(&Root::real(), path, rest, &search_path);
    match run(&target, words, within) {
        Ok(Seen { line, at_the_end: AtTheEnd::Ended(status) }) => {
            of_report(&shown, line, &target).and(&how(status))
        }
        // The process's files show what it became since its report.
        Ok(Seen { line: Some(_), at_the_end: AtTheEnd::Ran(verdict) }) => verdict,
        Ok(Seen { line: None, .. }) => of_report(&shown, None, &target),
        Err(error) => Verdict::NotKnown(format!("{shown}: did not start: {error}")),
    }
}

struct Seen {
    /// The library's last report.
    line: Option<Line>,
    at_the_end: AtTheEnd,
}

enum AtTheEnd {
    Ended(ExitStatus),
    /// The command still ran when its time was over.
    Ran(Verdict),
}

/// No part of the verdict, but a reader would take silence for success.
fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) | (None, None) => String::new(),
        (Some(code), _) => format!("; the command exited with code {code}"),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("", Signal::as_str);
            format!("; the command was killed by signal {signal} {name}").trim_end().to_owned()
        }
    }
}

fn run(target: &Target, words: &[OsString], within: Duration) -> std::io::Result<Seen> {
    let proof = Proof::new()?;
    let mut command = Command::new(&target.path);
    command
        .arg0(words.first().map_or(target.path.as_os_str(), OsString::as_os_str))
        .args(words.iter().skip(1));
    // Its output is none of the answer, and a program that reads would wait for a reader's typing.
    command.env(PROOF_VARIABLE, proof.number().to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let held = Held::hold(&[])?;
    let before = held.before();
    // SAFETY: sigprocmask is async-signal-safe, which is what code between fork and exec must be.
    unsafe {
        command.pre_exec(move || Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?));
    }
    let mut child = command.process_group(0).spawn()?;
    let id = child.id() as i32;
    let at_the_end = match ended(&mut child, within, &held)? {
        End::Itself(status) => AtTheEnd::Ended(status),
        End::Time => AtTheEnd::Ran(process::judge(id)),
        // A signal that ends the question ends the program that was started for it.
        End::Signal(number) => {
            end(&mut child, &held)?;
            drop(proof);
            std::process::exit(128 + number);
        }
    };
    if matches!(at_the_end, AtTheEnd::Ran(_)) {
        end(&mut child, &held)?;
    }
    Ok(Seen { line: proof.last_of(id), at_the_end })
}

/// Why we wait no longer.
enum End {
    Itself(ExitStatus),
    Time,
    Signal(i32),
}

fn ended(child: &mut Child, within: Duration, held: &Held) -> std::io::Result<End> {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Itself(status));
        }
        let left = within.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(End::Time);
        }
        if let Some(came) = held.comes_within(pause.min(left)) {
            return Ok(End::Signal(came.number));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn end(child: &mut Child, held: &Held) -> std::io::Result<()> {
    let group = Pid::from_raw(child.id() as i32);
    let _ = killpg(group, Signal::SIGTERM);
    if !matches!(ended(child, GRACE, held)?, End::Itself(_)) {
        let _ = killpg(group, Signal::SIGKILL);
        child.wait()?;
    }
    Ok(())
}

fn of_report(shown: &str, line: Option<Line>, target: &Target) -> Verdict {
    let preloaded = preloaded();
    let prevented = preloaded.as_ref().and_then(|library| prevented(target, library, line.is_some()));
    let elsewhere = |why: &str| Verdict::Elsewhere(format!("{shown} does not run on vcmalloc: {why}"));
    let Some(line) = line else {
        return elsewhere(&prevented.unwrap_or_else(|| why_not(preloaded.is_some())));
    };
    if line.version.contains(allocator::IS_RUST_HALF) {
        return Verdict::Elsewhere(super::half(shown, &line.version, &line.malloc));
    }
    let carrier = findings::carrier(target);
    if line.malloc != "ours" && carrier.is_none() {
        return elsewhere(&format!("the malloc of {} comes first", line.malloc));
    }
    if let Some(why) = prevented {
        return elsewhere(&why);
    }
    if let Look::Elf(elf) = &target.look
        && carrier.is_none()
        && let Some((symbol, name)) = elf.private_copy()
    {
        return Verdict::Elsewhere(format!(
            "{shown} runs only partly on vcmalloc: it contains {name} as {symbol}, which a preload does not \
             replace"
        ));
    }
    let mallctl = mallctl(target, preloaded.as_ref());
    Verdict::Ours(format!("{shown} runs on vcmalloc {}, front {}{mallctl}", line.version, line.front))
}

/// By the loader's order of lookup: the program, the preload that serves malloc, then the libraries.
fn mallctl(target: &Target, preloaded: Option<&Library>) -> String {
    let Look::Elf(elf) = &target.look else { return String::new() };
    let exports = |path: &Path| {
        let look = elf::look(path, Depth::ExportedSymbols);
        matches!(look, Ok(Look::Elf(elf)) if elf.exports(JEMALLOC_INTERFACE))
    };
    let library_path = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let linked = || dependencies::of_in(&Root::real(), &target.program, elf, &library_path);
    let objects = [target.program.clone()].into_iter().chain(preloaded.map(|library| library.path.clone()));
    let mut objects = objects.chain(linked().into_iter().filter_map(|library| library.path));
    let Some(first) = objects.find(|path| exports(path)) else { return String::new() };
    if library::open(&first, PRELOAD).is_ok() {
        return format!("; mallctl is answered by {}", first.shown());
    }
    format!("; mallctl and MALLOC_CONF reach {}, which serves no malloc here", first.shown())
}

/// The first preload of the environment that is ours and can be taken.
fn preloaded() -> Option<Library> {
    let list = env::var(PRELOAD).unwrap_or_default();
    let paths = list.split([':', ' ']).filter(|entry| entry.contains('/'));
    paths.filter_map(|path| library::open(Path::new(path), PRELOAD).ok()).next()
}

fn prevented(target: &Target, library: &Library, is_reported: bool) -> Option<String> {
    let library_path = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let root = Root::real();
    let start = Start { root: &root, starter: Starter::this_process(), library_path: &library_path };
    let findings = findings::of(target, library, &start);
    let first =
        findings.iter().find(|finding| finding.prevents() && (finding.outweighs_proof || !is_reported));
    first.map(findings::Finding::text)
}

fn why_not(is_preloaded: bool) -> String {
    let list = env::var(PRELOAD).unwrap_or_default();
    let by_name = || list.split([':', ' ']).any(|entry| entry.starts_with("libvcmalloc"));
    if is_preloaded || by_name() {
        "the library did not report, for an unknown reason. Does a wrapper clear the environment, or did the \
         loader refuse (its message is above)?"
            .into()
    } else if list.is_empty() {
        "LD_PRELOAD is not set here, and the program is not linked with it. 'vcm run -- COMMAND' preloads it"
            .into()
    } else {
        let whys = list.split([':', ' ']).filter(|entry| entry.contains('/') && !entry.contains('$'));
        let whys = whys.filter_map(|entry| library::open(Path::new(entry), PRELOAD).err());
        let whys: String = whys.map(|why| format!("; {}", why.message)).collect();
        format!("none of LD_PRELOAD={} is a vcmalloc that can be preloaded{whys}", say::typed([list]))
    }
}
