//! The allocator that serves a process's malloc, and how that is known.
//!
//! Owns the marks by which allocators are told apart: symbols that only one of them exports, and strings that
//! it carries when its symbols are gone.

use super::elf::{Elf, JEMALLOC_INTERFACE, OWN_INTERFACE, TCMALLOC_INTERFACE};
use super::loaded::{BroughtBy, Loaded, Object};
use std::io;
use std::path::{Path, PathBuf};
use vcm_foreign::{Shown, file, is_hidden};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// libvcmalloc.
    Ours,
    /// Ours in place of libtcmalloc, with its interface.
    StandIn,
    /// Ours in place of libjemalloc, with its interface.
    JemallocStandIn,
    Glibc,
    Musl,
    Jemalloc,
    /// gperftools with the heap profiler.
    Tcmalloc,
    /// gperftools without it.
    TcmallocMinimal,
    /// github.com/google/tcmalloc.
    GoogleTcmalloc,
    Mimalloc,
    Rpmalloc,
    Snmalloc,
    Hardened,
    Scudo,
    AddressSanitizer,
    /// Exports malloc, and nothing else that is known.
    Unknown,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "vcmalloc",
            Kind::StandIn => "vcmalloc, standing in for TCMalloc",
            Kind::JemallocStandIn => "vcmalloc, standing in for jemalloc",
            Kind::Glibc => "glibc malloc",
            Kind::Musl => "musl malloc",
            Kind::Jemalloc => "jemalloc",
            Kind::Tcmalloc => "TCMalloc (gperftools, full)",
            Kind::TcmallocMinimal => "TCMalloc (gperftools, minimal)",
            Kind::GoogleTcmalloc => "TCMalloc (google)",
            Kind::Mimalloc => "mimalloc",
            Kind::Rpmalloc => "rpmalloc",
            Kind::Snmalloc => "snmalloc",
            Kind::Hardened => "hardened_malloc",
            Kind::Scudo => "Scudo",
            Kind::AddressSanitizer => "AddressSanitizer",
            Kind::Unknown => "an unknown allocator",
        }
    }

    /// As in tables, where the libraries of one allocator are one.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Ours | Kind::StandIn | Kind::JemallocStandIn => "vcmalloc",
            Kind::Glibc => "glibc",
            Kind::Musl => "musl",
            Kind::Tcmalloc | Kind::TcmallocMinimal => "tcmalloc",
            Kind::GoogleTcmalloc => "google",
            Kind::Hardened => "hardened",
            Kind::AddressSanitizer => "asan",
            Kind::Unknown => "unknown",
            Kind::Jemalloc | Kind::Mimalloc | Kind::Rpmalloc | Kind::Snmalloc | Kind::Scudo => self.name(),
        }
    }

    pub fn is_ours(self) -> bool {
        matches!(self, Kind::Ours | Kind::StandIn | Kind::JemallocStandIn)
    }

    pub fn is_gperftools(self) -> bool {
        matches!(self, Kind::Tcmalloc | Kind::TcmallocMinimal)
    }
}

const OWN_TRACE: &[u8] = b"VCM_CONFIG";
/// Strings in the files of allocators whose symbols were removed.
const TRACES: [(&[u8], Kind); 5] = [
    (OWN_TRACE, Kind::Ours),
    (b"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", Kind::Tcmalloc),
    (b"<jemalloc>", Kind::Jemalloc),
    (b"mimalloc: ", Kind::Mimalloc),
    (b"Scudo ERROR", Kind::Scudo),
];

/// Whether vcmalloc is built into a program; its symbols may have been removed.
pub fn is_ours_in(program: &Path, elf: &Elf) -> bool {
    let has_own_malloc = || elf.interpreter.is_none() || elf.exports("malloc");
    let has_trace = || begin(program).is_ok_and(|bytes| find(&bytes, OWN_TRACE).is_some());
    elf.defines(OWN_INTERFACE) || (has_own_malloc() && has_trace())
}

#[derive(Clone, Debug)]
pub struct Allocator {
    pub kind: Kind,
    pub version: Option<String>,
    /// The file that holds it, as the process names it.
    pub object: PathBuf,
    pub brought_by: BroughtBy,
    pub is_replaced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// Follows from the order of lookup.
    Certain,
    /// The preloads are not known, or only a trace was found.
    Probable,
    Unknown,
}

/// The answer, and how it was found.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whose malloc the program gets.
    pub serving: Option<Allocator>,
    pub certainty: Certainty,
    /// The steps that led there, for a reader.
    pub evidence: Vec<String>,
    /// Other allocators in the process, in the order of lookup.
    pub others: Vec<Allocator>,
    /// The program, or a library of it, asks for gperftools' `MallocExtension`.
    pub asks_malloc_extension: bool,
    /// An allocator that the program carries under names of its own: the symbol of its malloc.
    pub private_copy: Option<&'static str>,
    /// The object that answers `mallctl`: the first in the order of lookup that exports it.
    pub answers_mallctl: Option<PathBuf>,
}

impl Answer {
    pub fn unknown(why: impl Into<String>) -> Self {
        Answer {
            serving: None,
            certainty: Certainty::Unknown,
            evidence: vec![why.into()],
            others: Vec::new(),
            asks_malloc_extension: false,
            private_copy: None,
            answers_mallctl: None,
        }
    }

    pub fn kind(&self) -> Option<Kind> {
        self.serving.as_ref().map(|allocator| allocator.kind)
    }

    /// Every allocator in the process, the one that serves it first.
    pub fn all(&self) -> impl Iterator<Item = &Allocator> {
        self.serving.iter().chain(&self.others)
    }
}

/// Reads the answer off the loaded objects.
pub fn of(loaded: &Loaded) -> Answer {
    let mut allocators: Vec<Allocator> = Vec::new();
    let mut answer = Answer::unknown("");
    answer.evidence.clear();
    let mut private_malloc = false;
    let mut unread: Vec<&Path> = Vec::new();
    for object in &loaded.objects {
        let Some(elf) = &object.elf else {
            unread.push(&object.path);
            continue;
        };
        answer.asks_malloc_extension |= elf.imports(TCMALLOC_INTERFACE);
        let is_program = object.brought_by == BroughtBy::Program;
        if let Some((symbol, name)) = elf.private_copy().filter(|_| is_program && !elf.defines("malloc")) {
            let line = format!("the program contains {name} as {symbol}, which a preload does not replace");
            answer.evidence.push(line);
            answer.private_copy = Some(symbol);
        }
        if elf.exports(JEMALLOC_INTERFACE)
            && object.brought_by != BroughtBy::Later
            && answer.answers_mallctl.is_none()
        {
            answer.answers_mallctl = Some(object.path.clone());
        }
        if elf.is_glibc_loader() {
            continue;
        }
        if elf.exports("malloc") || (is_program && elf.defines("malloc")) {
            private_malloc |= is_program && !elf.exports("malloc");
            allocators.push(identify(object, elf));
        } else if is_program && elf.needed.is_empty() {
            allocators.extend(by_trace(object));
        }
    }
    if let Some(first) = unread.first() {
        let others =
            if unread.len() > 1 { format!(" and {} others", unread.len() - 1) } else { String::new() };
        let line = format!("{}{others} cannot be read, so their symbols are not known", first.shown());
        answer.evidence.push(line);
    }
    let later = |allocator: &Allocator| allocator.brought_by == BroughtBy::Later;
    let serving = allocators.iter().position(|allocator| !later(allocator));
    let unplaced = allocators.iter().position(|found| later(found) && found.kind != Kind::Glibc);
    // Without the environment a library that nobody is linked with is taken for a preload.
    let serving = if loaded.is_order_known { serving } else { unplaced.or(serving) };
    answer.certainty = match serving {
        None => Certainty::Unknown,
        Some(_) if !unread.is_empty() || (!loaded.is_order_known && unplaced.is_some()) => {
            Certainty::Probable
        }
        Some(_) => Certainty::Certain,
    };
    answer.serving = serving.map(|at| allocators.remove(at));
    answer.others = allocators;
    let evidence = evidence(&answer, loaded, private_malloc);
    answer.evidence.splice(0..0, evidence);
    answer
}

fn evidence(answer: &Answer, loaded: &Loaded, private_malloc: bool) -> Vec<String> {
    let Some(serving) = &answer.serving else {
        return vec!["no object in /proc/PID/maps exports malloc".into()];
    };
    let place = loaded.objects.iter().position(|object| object.path == serving.object).unwrap_or(0) + 1;
    let count = loaded.objects.iter().filter(|object| object.brought_by != BroughtBy::Later).count();
    let object = serving.object.shown();
    let how = match serving.brought_by {
        BroughtBy::Program if private_malloc => {
            "it is built into the program, which does not export it".into()
        }
        BroughtBy::Program => "it is built into the program, which comes first".into(),
        BroughtBy::Preload => "LD_PRELOAD puts it before the libraries".into(),
        BroughtBy::Linked => {
            format!("the first of {count} objects in lookup order that exports malloc (number {place})")
        }
        BroughtBy::Later => "nothing is linked with it, so it was preloaded or opened later".into(),
    };
    let mut steps = vec![format!("/proc/PID/maps has {object}; {how}")];
    if !loaded.is_order_known {
        let how = if loaded.is_environment_empty { "is empty, in its memory too" } else { "cannot be read" };
        steps.push(format!("the environment {how}, so the preloads are not known"));
    }
    steps.extend(answer.whose_jemalloc());
    steps.extend(answer.mallctl_elsewhere());
    steps
}

impl Answer {
    /// Whose jemalloc serves the process.
    fn whose_jemalloc(&self) -> Option<String> {
        let serving = self.serving.as_ref().filter(|serving| serving.kind == Kind::Jemalloc)?;
        let is_system = ["/usr/lib", "/lib"].iter().any(|folder| serving.object.starts_with(folder));
        Some(match serving.brought_by {
            BroughtBy::Program => {
                "the program's own copy of jemalloc, which a preload does not replace".into()
            }
            _ if is_system => "the system's jemalloc".into(),
            _ => "a jemalloc outside the system's folders".into(),
        })
    }

    /// Whether `mallctl` is answered by another than serves malloc.
    pub fn mallctl_elsewhere(&self) -> Option<String> {
        let (serving, answering) = (self.serving.as_ref()?, self.answers_mallctl.as_ref()?);
        (*answering != serving.object).then(|| {
            format!("mallctl and MALLOC_CONF reach {}, which serves no malloc here", answering.shown())
        })
    }
}

fn identify(object: &Object, elf: &Elf) -> Allocator {
    let has = |symbol| elf.defines(symbol);
    let kind = if has(OWN_INTERFACE) {
        if elf.exports(TCMALLOC_INTERFACE) {
            Kind::StandIn
        } else if elf.exports(JEMALLOC_INTERFACE) {
            Kind::JemallocStandIn
        } else {
            Kind::Ours
        }
    } else if has("MallocExtension_Internal_GetStats") {
        Kind::GoogleTcmalloc
    } else if has("tc_malloc") || has("tc_version") {
        if has("HeapProfilerStart") { Kind::Tcmalloc } else { Kind::TcmallocMinimal }
    } else if has(JEMALLOC_INTERFACE) || has("je_malloc") || has("_rjem_malloc") {
        Kind::Jemalloc
    } else if has("mi_malloc") {
        Kind::Mimalloc
    } else if has("__asan_init") {
        Kind::AddressSanitizer
    } else if has("__scudo_print_stats") {
        Kind::Scudo
    } else if has("rpmalloc") {
        Kind::Rpmalloc
    } else if has("sn_malloc") || has("sn_rust_alloc") {
        Kind::Snmalloc
    } else if has("gnu_get_libc_version") {
        Kind::Glibc
    } else if has("malloc_object_size") {
        Kind::Hardened
    } else if file_name(&object.path).starts_with("ld-musl") {
        Kind::Musl
    } else {
        by_trace(object).map_or(Kind::Unknown, |found| found.kind)
    };
    allocator(object, kind)
}

fn allocator(object: &Object, kind: Kind) -> Allocator {
    Allocator {
        kind,
        version: version(object, kind),
        object: object.path.clone(),
        brought_by: object.brought_by,
        is_replaced: object.is_replaced,
    }
}

/// Of a file so much is looked through: the part to read is before the code, and daemons with all names are gigabytes long.
const MOST_OF_FILE: u64 = 128 << 20;
/// No version is longer.
const MOST_OF_VERSION: usize = 80;

fn begin(file: &Path) -> io::Result<Vec<u8>> {
    file::begin(file, MOST_OF_FILE)
}

/// An allocator in a program without symbols, by a string that it carries.
fn by_trace(object: &Object) -> Option<Allocator> {
    let bytes = begin(&object.file).ok()?;
    let (_, kind) = TRACES.into_iter().find(|(trace, _)| find(&bytes, trace).is_some())?;
    Some(allocator(object, kind))
}

/// The version, as the file says it in a string.
fn version(object: &Object, kind: Kind) -> Option<String> {
    let before: &[u8] = match kind {
        Kind::Tcmalloc | Kind::TcmallocMinimal => b"gperftools ",
        Kind::Glibc => b" release version ",
        Kind::Mimalloc => return in_name(&object.path),
        Kind::Jemalloc => return jemalloc_version(&begin(&object.file).ok()?),
        Kind::Ours | Kind::StandIn | Kind::JemallocStandIn => return own_version(&begin(&object.file).ok()?),
        _ => return None,
    };
    let bytes = begin(&object.file).ok()?;
    number_at(bytes.get(find(&bytes, before)? + before.len()..)?)
}

/// How the version of the hardened library ends, wherever it is told.
pub const IS_HARDENED: &str = "(hardened)";

/// The mark behind the version of a library that serves Rust's blocks alone.
pub const IS_RUST_HALF: &str = "(Rust half)";

/// The version of our library in a file.
pub fn own_version_in(program: &Path) -> Option<String> {
    own_version(&begin(program).ok()?)
}

/// Ours has its commit behind the number.
fn own_version(bytes: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b"vcmalloc version ";
    let from = bytes.get(find(bytes, BEFORE)? + BEFORE.len()..)?;
    let text = from.get(..from.iter().position(|byte| *byte == 0)?)?;
    as_version(text)
}

/// A file may say anything.
fn as_version(text: &[u8]) -> Option<String> {
    let text = str::from_utf8(text).ok().filter(|text| text.len() <= MOST_OF_VERSION)?;
    (!text.chars().any(is_hidden)).then(|| text.to_string())
}

fn number_at(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let number = String::from_utf8_lossy(bytes.get(..end)?).trim_end_matches('.').to_string();
    number.contains('.').then_some(number)
}

/// jemalloc says `5.3.0-0-g54eaed1d`: the last commit follows the number.
fn jemalloc_version(bytes: &[u8]) -> Option<String> {
    let mut from = 0;
    while let Some(at) = find(bytes.get(from..)?, b"-0-g") {
        let end = from + at;
        let start = bytes.get(..end)?.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'.')? + 1;
        if let Some(number) = number_at(bytes.get(start..)?) {
            return Some(number);
        }
        from = end + 1;
    }
    None
}

/// `libmimalloc.so.2.0`.
fn in_name(path: &Path) -> Option<String> {
    let name = file_name(path);
    as_version(name.split_once(".so.")?.1.as_bytes())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        if bytes.get(from + at..)?.starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_strings() {
        assert_eq!(jemalloc_version(b"x-0-g \0 5.3.0-0-g54eaed1d\0").as_deref(), Some("5.3.0"));
        assert_eq!(
            own_version(b"x vcmalloc version 0.1.0+d5f9679ad6+changes\0y").unwrap(),
            "0.1.0+d5f9679ad6+changes"
        );
        assert_eq!(own_version(b"vcmalloc 0.1.0"), None);
        assert_eq!(number_at(b"2.10\0").as_deref(), Some("2.10"));
        assert_eq!(number_at(b"2.36.\n").as_deref(), Some("2.36"));
        assert_eq!(number_at(b"none\0"), None);
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aa", b"b"), None);
    }

    #[test]
    fn the_tests_own_process_runs_on_glibc() {
        let own = crate::process::Process::new(std::process::id() as i32);
        let environment = own.environment().unwrap();
        if environment.iter().any(|(name, _)| name == "LD_PRELOAD") {
            return;
        }
        let answer = of(&crate::loaded::of(&own, Some(&environment)).unwrap());
        let serving = answer.serving.unwrap();
        assert_eq!((serving.kind, serving.brought_by), (Kind::Glibc, BroughtBy::Linked));
        assert!(serving.version.unwrap().starts_with("2."));
        assert_eq!(answer.certainty, Certainty::Certain);
    }
}
