//! The process that is meant, and why its statistics cannot be seen where they cannot.

use super::counters::Counters;
use super::heaps;
use super::layout::{Found, Layout, VERSION};
use super::memory::{Memory, descriptions};
use super::pages::Pages;
use super::snapshot::{Setting, Snapshot, settings};
use crate::allocator;
use crate::condition::Condition;
use crate::loaded;
use crate::privileges::how_to_see_more;
use crate::process::{self, Process};
use crate::root::Root;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vcm_foreign::{Text, file};

/// Processes of one name that are told by their numbers.
const MOST_NAMED: usize = 20;

/// A process whose statistics can be read.
pub struct Seen {
    pub process: Process,
    pub name: Text,
    pub(super) memory: Memory,
    pub(super) layout: Box<Layout>,
}

/// The process that a number or a name means. The error is a line for who asked.
pub fn find(word: &str) -> Result<Process, String> {
    if let Some(id) = word.parse().ok().filter(|id| *id > 0) {
        return Ok(Process::new(id));
    }
    if is_number(word) {
        return Err(format!("{word} is no process id"));
    }
    let found = named(&Root::real(), word);
    match *found.as_slice() {
        [id] => Ok(Process::new(id)),
        [] => Err(format!("no process is called '{word}'; 'vcm doctor' shows the daemons, 'ps -e' all")),
        [first, ..] => {
            let mut ids: Vec<String> = found.iter().take(MOST_NAMED).map(i32::to_string).collect();
            ids.extend((found.len() > MOST_NAMED).then(|| "...".to_owned()));
            Err(format!(
                "{} processes are called '{word}': {}; give a process id: vcm stat {first}",
                found.len(),
                ids.join(" ")
            ))
        }
    }
}

/// Whether it can be meant for a process id alone.
pub fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// The processes of this name, or whose program's file has it, in the order of their ids.
pub fn named(root: &Root, word: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let is_meant = |id: &i32| *id != own && is_named(&Process::in_root(root, *id), word);
    process::all(root).into_iter().filter(is_meant).collect()
}

fn is_named(process: &Process, word: &str) -> bool {
    let file = process.program().ok();
    let file = file.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    let is_program = file.is_some_and(|name| name.trim_end_matches(loaded::REPLACED) == word);
    (is_program || process.name().is_ok_and(|name| name == word)) && process.is_alive()
}

/// A process with a library of ours, whose statistics were not read yet.
pub struct Ours {
    pub process: Process,
    memory: Memory,
    descriptions: Vec<u64>,
}

/// The process, if a library of ours is in it; an error where that may not be looked at.
pub fn ours(process: &Process) -> io::Result<Option<Ours>> {
    let memory = Memory::of(process)?;
    let descriptions = descriptions(process, &memory)?;
    Ok((!descriptions.is_empty()).then(|| Ours { process: process.clone(), memory, descriptions }))
}

/// Whether a library of ours is in the process; an error where that may not be looked at.
pub fn is_on_ours(process: &Process) -> io::Result<bool> {
    ours(process).map(|found| found.is_some())
}

/// The version of ours in a process where it serves Rust's blocks alone.
pub fn rust_half(process: &Process) -> Option<String> {
    let seen = Seen::open(process.clone()).ok()?;
    Some(seen.build().printed()).filter(|build| build.contains(allocator::IS_RUST_HALF))
}

impl Seen {
    /// Opens the window of a process. The error is the rest of a line that begins with its number.
    pub fn open(process: Process) -> Result<Seen, String> {
        if let Some(why) = process.condition().why_not_seen() {
            return Err(why.into());
        }
        let refused = |error: io::Error| why_refused(&process, &error);
        let memory = Memory::of(&process).map_err(refused)?;
        let descriptions = descriptions(&process, &memory).map_err(refused)?;
        Self::of(Ours { process, memory, descriptions })
    }

    /// The same of a process that was found to be ours.
    pub fn of(ours: Ours) -> Result<Seen, String> {
        let Ours { process, memory, descriptions: at } = ours;
        let refused = |error: io::Error| why_refused(&process, &error);
        let mut layouts = Vec::new();
        let mut other = None;
        for at in at {
            match Layout::read(&memory, at).map_err(refused)? {
                Found::Layout(layout) => layouts.push(layout),
                Found::Version(version) => other = Some(version),
            }
        }
        if layouts.is_empty() {
            return Err(match other {
                Some(version) => format!(
                    "has statistics of layout {version}, and this vcm reads layout {VERSION}: use the vcm of its build"
                ),
                None => without_window(&process),
            });
        }
        // Of two libraries in one process that one serves it whose heap is in use.
        let used = |layout: &Layout| {
            Snapshot::take(&process, &memory, layout).map_or(0, |snapshot| snapshot.stats.mapped)
        };
        if layouts.len() > 1 {
            layouts.sort_by_cached_key(|layout| used(layout));
        }
        let Some(layout) = layouts.pop() else { return Err(without_window(&process)) };
        let name = process.name().unwrap_or_default();
        Ok(Seen { process, name, memory, layout })
    }

    /// The library's version, and what it is beside that.
    pub fn build(&self) -> &Text {
        &self.layout.build
    }

    /// Looks once. The error is the rest of a line that begins with the process's number.
    pub fn snapshot(&self) -> Result<Snapshot, String> {
        self.snapshot_with(&mut None)
    }

    /// The options in effect, without a look at anything else; none before the first allocation, which reads them.
    pub fn settings(&self) -> Result<Option<Vec<Setting>>, String> {
        let counters = Counters::read(&self.memory, &self.layout);
        let counters = counters.map_err(|error| why_refused(&self.process, &error))?;
        Ok(counters.is_started().then(|| settings(&counters)))
    }

    /// The bytes that its caches may have now; none before the first allocation.
    pub fn cache_limit(&self) -> Option<u64> {
        let counters = Counters::read(&self.memory, &self.layout).ok()?;
        counters.is_started().then(|| counters.one("budget.limit"))
    }

    /// The numbers of the heaps of tenants that are called so.
    pub fn heaps_called(&self, name: &str) -> Result<Vec<u64>, String> {
        let refused = |error| why_refused(&self.process, &error);
        let counters = Counters::read(&self.memory, &self.layout).map_err(refused)?;
        let called = heaps::called(&self.memory, &counters, name).map_err(refused)?;
        called.map_err(|others| match others.as_slice() {
            [] => "has no heaps of tenants".into(),
            others => format!("has no heap called '{name}'; some that it has: {}", others.join(", ")),
        })
    }

    pub(super) fn snapshot_with(&self, kept: &mut Option<Pages>) -> Result<Snapshot, String> {
        Snapshot::take_with(&self.process, &self.memory, &self.layout, kept)
            .map_err(|error| why_refused(&self.process, &error))
    }
}

/// Why there is no description: another allocator, or a build from before there was one.
fn without_window(process: &Process) -> String {
    let environment = process.variables().map(|variables| variables.pairs).ok();
    let answer = loaded::of(process, environment.as_deref()).map(|loaded| allocator::of(&loaded));
    match answer.ok().and_then(|answer| answer.serving) {
        Some(found) if found.kind.is_ours() => format!(
            "runs vcmalloc {}, which is older than 'vcm stat'; restart it on this one",
            found.version.unwrap_or_default()
        ),
        Some(found) => {
            let version = found.version.map(|version| format!(" {version}")).unwrap_or_default();
            format!(
                "runs on {}{version}, not on vcmalloc ('vcm run' or 'vcm enable' changes that)",
                found.kind.name()
            )
        }
        None => "does not run on vcmalloc, as far as can be seen".into(),
    }
}

pub(super) fn why_refused(process: &Process, error: &io::Error) -> String {
    let id = process.id;
    match process.condition() {
        Condition::Running => {}
        other => return other.why_not_seen().unwrap_or("has ended").into(),
    }
    // A process has no memory for an instant while it becomes another program.
    let has_none = error.raw_os_error() == Some(libc::ESRCH);
    match error.kind() {
        kind if has_none || kind == ErrorKind::NotFound => "has ended, or became another program".into(),
        ErrorKind::PermissionDenied => why_forbidden(process),
        // Only a damaged library says that, or one that means to mislead.
        ErrorKind::InvalidData | ErrorKind::TimedOut => format!("is not read: {error}"),
        // If addresses that it named are not there any more, it is at its end or starts something else.
        _ => format!("cannot be read now ({error}); try again: vcm stat {id}"),
    }
}

const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
/// CAP_SYS_PTRACE (capabilities(7)).
const TRACE_OTHERS: u64 = 1 << 19;

/// The reason why the memory may not be read, and what mends it: the rest of a line that begins with the process.
pub fn why_forbidden(process: &Process) -> String {
    let id = process.id;
    let scope =
        file::text_of_kernel(Path::new(PTRACE_SCOPE)).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let own = nix::unistd::geteuid();
    if own.is_root() {
        let own = Process::new(std::process::id() as i32).status("CapEff");
        let may = own
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
            .is_some_and(|mask| mask & TRACE_OTHERS != 0);
        return match (may, scope) {
            (_, Some(3)) => "may not be read by any process: kernel.yama.ptrace_scope is 3 until the next \
             boot".into(),
            (false, _) => "may not be read: this root has no CAP_SYS_PTRACE; run vcm on the host, or the container with \
                           --cap-add SYS_PTRACE"
                .into(),
            (true, _) => format!("may not be read ({}); run vcm on the host", how_to_see_more()),
        };
    }
    let owner = fs::metadata(process.file("")).map(|folder| folder.uid()).unwrap_or(0);
    if owner != own.as_raw() {
        return format!("belongs to {}, whose memory only root may read: sudo vcm stat {id}", user(owner));
    }
    match scope {
        Some(scope @ 1..) => {
            format!("may be read by root only, as kernel.yama.ptrace_scope is {scope}: sudo vcm stat {id}")
        }
        _ => format!("has more privileges than you, so only root may read its memory: sudo vcm stat {id}"),
    }
}

fn user(id: u32) -> String {
    let user = nix::unistd::User::from_uid(id.into()).ok().flatten();
    user.map_or_else(|| format!("user {id}"), |user| user.name)
}
