//! Findings about a program before it starts, and what they mean for running it on vcmalloc.
//!
//! Owns the messages: each says what was seen, why it matters and what to do. `vcm run` and `vcm enable` decide
//! what follows; the looking is that of `vcm-inspect`.

use std::path::{Path, PathBuf};
use vcm_foreign::Shown;
use vcm_front::library::{self, Library};
use vcm_inspect::allocator;
use vcm_inspect::command::Command;
use vcm_inspect::dependencies;
use vcm_inspect::elf::{self, Depth, Elf, Look, OWN_INTERFACE, TCMALLOC_INTERFACE};
use vcm_inspect::privileges::{self, Gain, Starter};
use vcm_inspect::root::Root;

/// The weight of a finding for the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Starting would do harm: the program would not start, or read wrong figures.
    Harmful,
    /// The program will start, but not on vcmalloc.
    Prevents,
    /// It will run on vcmalloc, and the operator should know something.
    Note,
}

pub struct Finding {
    pub weight: Weight,
    /// It holds even though the library reports from the process: what it is about comes after the report, or
    /// cannot be seen from inside.
    pub outweighs_proof: bool,
    /// The name of gperftools' or jemalloc's library whose place ours would have to take.
    pub wants_stand_in: Option<String>,
    /// It is loaded, and next to nothing is allocated there: not worth a change of a service.
    pub is_idle: bool,
    pub what: String,
    pub why: &'static str,
    pub advice: String,
}

impl Finding {
    fn new(weight: Weight, what: impl Into<String>, why: &'static str, advice: impl Into<String>) -> Self {
        Finding {
            weight,
            outweighs_proof: false,
            wants_stand_in: None,
            is_idle: false,
            what: what.into(),
            why,
            advice: advice.into(),
        }
    }

    fn outweighing_proof(self) -> Self {
        Finding { outweighs_proof: true, ..self }
    }

    /// True where the program would not run on vcmalloc. A program that wants the stand-in would, for the worse.
    pub fn prevents(&self) -> bool {
        match self.weight {
            Weight::Harmful => self.wants_stand_in.is_none(),
            Weight::Prevents => true,
            Weight::Note => false,
        }
    }

    /// The message in one line.
    pub fn text(&self) -> String {
        format!("{}. {} {}", self.what, self.why, self.advice)
    }
}

/// How the command is started.
pub struct Start<'a> {
    pub root: &'a Root,
    pub starter: Starter,
    /// Its LD_LIBRARY_PATH.
    pub library_path: &'a str,
}

/// Everything that is worth saying about `command`, in the order in which it was looked at.
pub fn of(command: &Command, library: &Library, start: &Start) -> Vec<Finding> {
    let program = &command.program;
    let mut findings = Vec::new();
    findings.extend(command.clears_environment.as_deref().map(environment_cleared));
    findings
        .extend(privileges::gained_by(program, start.starter).map(|gain| secure_execution(program, gain)));
    match &command.look {
        Look::Foreign { machine } => findings.push(foreign(program, machine)),
        Look::Elf(elf) => {
            if allocator::is_ours_in(program, elf) {
                findings.extend(linked_unhardened(program, library));
            } else {
                findings.extend(loading(program, elf));
                findings.extend(built_in(program, elf));
            }
            findings.extend(linked(program, elf, library, start));
        }
        Look::Script { .. } | Look::Other => {}
    }
    // A report can only come from the program that is started first.
    let comes_later = command.path != command.program;
    findings
        .into_iter()
        .map(|finding| if comes_later { finding.outweighing_proof() } else { finding })
        .collect()
}

/// The program, where vcmalloc is linked into it.
pub fn carrier(command: &Command) -> Option<PathBuf> {
    match &command.look {
        Look::Elf(elf) if allocator::is_ours_in(&command.program, elf) => command.program.canonicalize().ok(),
        _ => None,
    }
}

/// A library that is linked into the program comes before one that is preloaded.
fn linked_unhardened(program: &Path, library: &Library) -> Option<Finding> {
    let is_hardened = |path: &Path| {
        allocator::own_version_in(path).is_none_or(|version| version.ends_with(allocator::IS_HARDENED))
    };
    let is_wanted = allocator::own_version_in(&library.path)?.ends_with(allocator::IS_HARDENED);
    (is_wanted && !is_hardened(program)).then(|| {
        Finding::new(
            Weight::Harmful,
            format!("{} has vcmalloc linked into it, and not the hardened one", program.shown()),
            "The linked allocator precedes the preloaded one, so no block would be checked.",
            "Link it with libvcmalloc-hardened.a, or omit --hardened.",
        )
    })
}

fn environment_cleared(by: &Path) -> Finding {
    Finding::new(
        Weight::Prevents,
        format!("{} clears the environment (env -i)", by.shown()),
        "The preload and the options are environment variables and are lost there.",
        "Put 'vcm run' behind that env, or let it keep LD_PRELOAD and the VCM_ variables.",
    )
}

fn secure_execution(program: &Path, gain: Gain) -> Finding {
    let has = match gain {
        Gain::SetUser => "is setuid",
        Gain::SetGroup => "is setgid",
        Gain::Capabilities => "has file capabilities",
    };
    Finding::new(
        Weight::Prevents,
        format!("{} {has}", program.shown()),
        "The loader ignores preloads in programs that gain privileges.",
        "Start it as the target user (systemd: User= and AmbientCapabilities=), or link it with \
         libvcmalloc.",
    )
}

fn foreign(program: &Path, machine: &str) -> Finding {
    Finding::new(
        Weight::Prevents,
        format!("{} is built for {machine}", program.shown()),
        "The loader cannot load this machine's libvcmalloc.so into it.",
        "Use a build of the program for this machine.",
    )
}

fn loading(program: &Path, elf: &Elf) -> Option<Finding> {
    let shown = program.shown();
    if file_name(program).starts_with("ld-linux") || file_name(program) == "ld.so" {
        // The dynamic loader itself, started by hand with a program as its argument.
        return None;
    }
    if let Some(loader) = [elf.interpreter.as_deref(), Some(program)].into_iter().flatten().find(is_musls) {
        return Some(Finding::new(
            Weight::Harmful,
            format!("{shown} is a musl program (its loader is {})", loader.shown()),
            "libvcmalloc.so is built for glibc: musl's loader reports unknown relocations and ends the program at \
             start.",
            "Use a build of the program for glibc.",
        ));
    }
    elf.interpreter.is_none().then(|| {
        Finding::new(
            Weight::Prevents,
            format!("{shown} is linked statically"),
            "It has no dynamic loader, so nothing can be preloaded and it keeps its own malloc.",
            "Link it dynamically, or link libvcmalloc.a into it.",
        )
    })
}

fn is_musls(loader: &&Path) -> bool {
    file_name(loader).starts_with("ld-musl")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().shown().printed()
}

/// Allocators that are part of the program itself.
fn built_in(program: &Path, elf: &Elf) -> Option<Finding> {
    let shown = program.shown();
    // `loading` says what there is to say about a static program.
    elf.interpreter.as_ref()?;
    let own = elf.private_copy();
    let called = own.map_or(String::new(), |(symbol, name)| format!(" ({name}: it has {symbol})"));
    if elf.defines("__tsan_init") {
        let what = format!("{shown} has ThreadSanitizer built in");
        return Some(Finding::new(Weight::Harmful, what, SANITIZER_IS_FIRST, WITHOUT_SANITIZER));
    }
    let called = if elf.defines("__asan_init") { " (AddressSanitizer)".into() } else { called };
    if elf.exports("malloc") {
        return Some(Finding::new(
            Weight::Prevents,
            format!("{shown} has its own malloc built in{called}"),
            "A built-in malloc precedes any preload.",
            "Use a build without it, or link libvcmalloc into it.",
        ));
    }
    if elf.defines("malloc") {
        let finding = Finding::new(
            Weight::Prevents,
            format!("{shown} has its own malloc built in{called} and does not export it"),
            "Only its libraries' allocations would reach vcmalloc.",
            "Use a build without it, or link libvcmalloc into it.",
        );
        return Some(finding.outweighing_proof());
    }
    if elf.is_go {
        let finding = Finding::new(
            Weight::Note,
            format!("{shown} is made by Go"),
            "Go's runtime manages its own memory; only allocations of C libraries reach vcmalloc.",
            "For the Go heap use GOMEMLIMIT and GOGC.",
        );
        return Some(Finding { is_idle: true, ..finding });
    }
    own.map(|(symbol, name)| {
        Finding::new(
            Weight::Note,
            format!("{shown} contains {name} as {symbol}"),
            "Its allocations there do not reach vcmalloc, so a comparison would show little.",
            "Build it for the system's malloc (redis: make MALLOC=libc).",
        )
    })
}

/// Allocators among the libraries that it loads.
fn linked(program: &Path, elf: &Elf, library: &Library, start: &Start) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in dependencies::of_in(start.root, program, elf, start.library_path) {
        let by = dependency.wanted_by.shown();
        if dependency.name.starts_with(library::STAND_IN_PREFIX) {
            // Two of ours are one heap; the stand-in behind libvcmalloc.so would have an empty one.
            let is_second =
                stands_in_for_tcmalloc(library) && dependency.path.as_deref().is_some_and(is_ours);
            if !library.stands_in_for(&dependency.name) && !is_second {
                findings.push(linked_tcmalloc(&by.to_string(), &dependency.name, library));
            }
        } else if dependency.name.starts_with("libjemalloc") {
            if !library.stands_in_for(&dependency.name) {
                findings.push(linked_jemalloc(&by.to_string(), &dependency.name));
            }
        } else if let Some((_, name, weight)) = sanitizer(&dependency.name) {
            let what = format!("{by} is linked with {} ({name})", dependency.name);
            findings.push(linked_sanitizer(what, *weight));
        }
    }
    findings
}

/// Sanitizers by the beginnings of their libraries' names, of GCC and of Clang. UBSan has no malloc.
const SANITIZERS: [(&str, &str, Weight); 5] = [
    ("libasan.", "AddressSanitizer", Weight::Harmful),
    ("libclang_rt.asan", "AddressSanitizer", Weight::Harmful),
    ("libtsan.", "ThreadSanitizer", Weight::Harmful),
    ("libclang_rt.tsan", "ThreadSanitizer", Weight::Harmful),
    ("liblsan.", "LeakSanitizer", Weight::Note),
];
const SANITIZER_IS_FIRST: &str = "The sanitizer has its own malloc and must be loaded first: after a preload the \
 program stops at start or crashes.";
const WITHOUT_SANITIZER: &str = "Use a build without it; there the hardened library (--hardened) finds \
     overflows, double frees and uses after free.";

fn sanitizer(library: &str) -> Option<&'static (&'static str, &'static str, Weight)> {
    SANITIZERS.iter().find(|(beginning, _, _)| library.starts_with(beginning))
}

fn linked_sanitizer(what: String, weight: Weight) -> Finding {
    match weight {
        Weight::Note => Finding::new(
            weight,
            what,
            "It sees only blocks of its own malloc, so it finds no leaks on vcmalloc.",
            "Run leak checks without vcmalloc.",
        ),
        _ => Finding::new(weight, what, SANITIZER_IS_FIRST, WITHOUT_SANITIZER),
    }
}

fn is_ours(path: &Path) -> bool {
    let look = elf::look(path, Depth::ExportedSymbols);
    look.is_ok_and(|look| {
        matches!(look, Look::Elf(elf) if elf.exports(OWN_INTERFACE) && elf.exports(TCMALLOC_INTERFACE))
    })
}

fn linked_tcmalloc(by: &str, name: &str, library: &Library) -> Finding {
    let mut what = format!("{by} is linked with {name}");
    if let Some(other) = library.stands_in_for.first().filter(|_| stands_in_for_tcmalloc(library)) {
        what += &format!(", and {} replaces {other} only", library.path.shown());
    }
    let finding = Finding::new(
        Weight::Harmful,
        what,
        "A program that reads its memory use from tcmalloc's MallocExtension (as ceph-osd does for \
         osd_memory_target) would read an empty heap and let its caches grow until memory runs out.",
        format!(
            "Put vcmalloc's own {name} beside libvcmalloc.so (the package vcmalloc-tcmalloc-compat has it, 'make build' makes libtcmalloc.so.4, _minimal, _debug, \
             _minimal_debug and _and_profiler) or give it with --library; use a build without tcmalloc; or, if \
             the program never reads it, start it with --force."
        ),
    );
    Finding { wants_stand_in: Some(name.to_string()), ..finding }
}

fn stands_in_for_tcmalloc(library: &Library) -> bool {
    library.stands_in_for.iter().any(|name| name.starts_with(library::STAND_IN_PREFIX))
}

fn linked_jemalloc(by: &str, name: &str) -> Finding {
    let has_stand_in = library::has_stand_in(name);
    let advice = if has_stand_in {
        "Install vcmalloc's own libjemalloc.so.2, which answers them, in the folder vcmalloc/jemalloc beside \
         libvcmalloc.so (the package vcmalloc-jemalloc-compat, or 'make install'), or give it with --library."
    } else {
        "Read 'VCM_STATS_AT_EXIT=1' instead, or use a build without jemalloc."
    };
    let finding = Finding::new(
        Weight::Note,
        format!("{by} is linked with {name}"),
        "malloc and mallocx go to vcmalloc, but mallctl and MALLOC_CONF reach an idle jemalloc: its statistics \
         and settings have no meaning.",
        advice,
    );
    Finding { wants_stand_in: has_stand_in.then(|| name.to_string()), ..finding }
}

/// The stand-in beside the library that the program wants by these findings, or because jemalloc's library is among its
/// preloads. A program that needs TCMalloc's would fail without it; one that has jemalloc's only reads idle figures.
pub fn stand_in(library: &Library, findings: &[Finding], preloads: &str) -> Option<Library> {
    let wanted = |weight: Weight| {
        let of_it = findings.iter().filter(move |finding| finding.weight == weight);
        of_it.filter_map(|finding| finding.wants_stand_in.as_deref())
    };
    if wanted(Weight::Harmful).next().is_some() {
        return library.stand_in_for(wanted(Weight::Harmful));
    }
    let preloaded = library::preloads_jemalloc(preloads).then_some(library::JEMALLOC_STAND_IN);
    library.stand_in_for(wanted(Weight::Note).chain(preloaded))
}
