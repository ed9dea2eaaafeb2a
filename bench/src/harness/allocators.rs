//! The allocators that can be put under a program, declared once each.

use anyhow::{Result, bail, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an allocator comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The C library of the system: nothing is preloaded.
    Glibc,
    /// A file of a Debian package.
    Debian {
        file: &'static str,
        package: &'static str,
    },
    /// Built by `vcm-bench peers` from a crate; the name is the feature of bench/peers.
    Built(&'static str),
    Ours,
}

/// An allocator with its settings: what one column of a table stands for.
#[derive(Debug)]
pub struct Allocator {
    /// As typed after --allocators and as printed.
    pub name: &'static str,
    pub library: Library,
    pub environment: &'static [(&'static str, &'static str)],
    /// Part of a run if nobody chooses; the others are variants for single questions.
    pub is_default: bool,
}

impl Allocator {
    pub fn is_ours(&self) -> bool {
        self.library == Library::Ours
    }

    /// With settings of its own that no user gets unasked: not one of the peers that ratios are taken of.
    pub fn is_variant(&self) -> bool {
        !self.is_default
    }
}

const TCMALLOC: Library =
    Library::Debian { file: "libtcmalloc_minimal.so.4", package: "libtcmalloc-minimal4" };
const TCMALLOC_BOUND: &str = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";
/// Takes the thread's rseq area away from glibc: google/tcmalloc then has its per-CPU mode, ours the locked
/// path.
const NO_GLIBC_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

const fn peer(name: &'static str, library: Library) -> Allocator {
    Allocator { name, library, environment: &[], is_default: true }
}

const fn variant(
    name: &'static str,
    library: Library,
    environment: &'static [(&'static str, &'static str)],
) -> Allocator {
    Allocator { name, library, environment, is_default: false }
}

/// All of them, in the order of the columns.
pub static ALLOCATORS: &[Allocator] = &[
    peer("vcmalloc", Library::Ours),
    peer("glibc", Library::Glibc),
    peer("jemalloc", Library::Debian { file: "libjemalloc.so.2", package: "libjemalloc2" }),
    peer("tcmalloc", TCMALLOC),
    peer("mimalloc2", Library::Debian { file: "libmimalloc.so.2.0", package: "libmimalloc2.0" }),
    peer("jemalloc-new", Library::Built("jemalloc")),
    peer("mimalloc2-new", Library::Built("mimalloc2")),
    peer("mimalloc3-new", Library::Built("mimalloc3")),
    peer("snmalloc-new", Library::Built("snmalloc")),
    peer("rpmalloc-new", Library::Built("rpmalloc")),
    peer("google-new", Library::Built("tcmalloc")),
    variant("vcmalloc-1M", Library::Ours, &[("VCM_CACHE_LIMIT", "1M")]),
    variant("vcmalloc-locked", Library::Ours, &[NO_GLIBC_RSEQ]),
    variant("tcmalloc-1M", TCMALLOC, &[(TCMALLOC_BOUND, "1048576")]),
    variant("tcmalloc-128M", TCMALLOC, &[(TCMALLOC_BOUND, "134217728")]),
    variant("google-rseq", Library::Built("tcmalloc"), &[NO_GLIBC_RSEQ]),
];

/// The allocators called by these names; `default` and `all` are groups.
pub fn named(names: &[String]) -> Result<Vec<&'static Allocator>> {
    let mut chosen: Vec<&'static Allocator> = Vec::new();
    for name in names {
        let matching: Vec<&'static Allocator> = ALLOCATORS
            .iter()
            .filter(|allocator| match name.as_str() {
                "all" => true,
                "default" => allocator.is_default,
                name => allocator.name == name,
            })
            .collect();
        if matching.is_empty() {
            let known: Vec<&str> = ALLOCATORS.iter().map(|allocator| allocator.name).collect();
            bail!("no allocator is called `{name}`; there are default, all, {}", known.join(", "));
        }
        chosen.extend(matching);
    }
    // The order of the table, each once.
    Ok(ALLOCATORS.iter().filter(|known| chosen.iter().any(|one| one.name == known.name)).collect())
}

/// For `clap`: our library as it was named. One that nobody named may be missing and is left out; this one
/// not.
pub fn library_named(text: &str) -> Result<PathBuf, String> {
    let kind = std::fs::metadata(text).map_err(|error| error.to_string())?;
    if kind.is_dir() {
        return Err("it is a folder; name the file in it, libvcmalloc.so".to_owned());
    }
    Ok(text.into())
}

/// Where libraries are looked for.
#[derive(Clone, Debug)]
pub struct Places {
    pub ours: PathBuf,
    pub built_peers: PathBuf,
}

impl Places {
    /// Beside this program, unless a path to our library is given.
    pub fn beside_this_program(ours: Option<PathBuf>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let directory = program.parent().unwrap_or(Path::new("."));
        Ok(Self {
            ours: ours.unwrap_or_else(|| directory.join("libvcmalloc.so")),
            built_peers: directory.join("peers"),
        })
    }

    pub fn built_peer(&self, name: &str) -> PathBuf {
        self.built_peers.join(format!("libpeer_{name}.so"))
    }

    /// The file to preload, none for glibc; an error that says what is missing and how to get it.
    pub fn library_of(&self, allocator: &Allocator) -> Result<Option<PathBuf>> {
        let (path, remedy) = match allocator.library {
            Library::Glibc => return Ok(None),
            Library::Debian { file, package } => {
                let path = debian_library_directory().join(file);
                (path, format!("apt-get install {package}"))
            }
            Library::Built(name) => (self.built_peer(name), format!("vcm-bench peers {name}")),
            Library::Ours => (self.ours.clone(), "cargo build --release -p vcmalloc".to_owned()),
        };
        ensure!(path.exists(), "{} is not there; get it with `{remedy}`", path.display());
        Ok(Some(path.canonicalize()?))
    }
}

fn debian_library_directory() -> PathBuf {
    Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH))
}

/// An allocator whose library was found.
#[derive(Clone, Debug)]
pub struct Ready {
    pub allocator: &'static Allocator,
    pub library: Option<PathBuf>,
}

impl Ready {
    /// A command that runs on this allocator, and on no setting left over from the caller's environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_a_setting(name)) {
            command.env_remove(name);
        }
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library);
        }
        command.envs(self.allocator.environment.iter().copied());
        command
    }

    /// Whether `malloc_object`, as the load program reported it, is this allocator's file.
    pub fn owns(&self, malloc_object: &str) -> bool {
        match &self.library {
            Some(library) => Path::new(malloc_object).canonicalize().is_ok_and(|found| found == *library),
            None => malloc_object.contains("libc.so"),
        }
    }
}

/// By which some allocator, or the loader, would be another than the one that is named.
const SETTINGS: [&str; 10] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "TCMALLOC_",
    "MIMALLOC_",
    "VCM_",
    "HEAPPROFILE",
];

fn is_a_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    SETTINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Those of the chosen that are there; the rest is named on stderr with the reason.
pub fn ready(chosen: &[&'static Allocator], places: &Places) -> Vec<Ready> {
    let mut found = Vec::new();
    for &allocator in chosen {
        match places.library_of(allocator) {
            Ok(library) => found.push(Ready { allocator, library }),
            Err(reason) => eprintln!("without {}: {reason}", allocator.name),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chosen: &[&'static Allocator]) -> Vec<&'static str> {
        chosen.iter().map(|allocator| allocator.name).collect()
    }

    #[test]
    fn allocators_come_in_the_order_of_the_table_and_each_once() {
        let chosen = named(&["tcmalloc".into(), "glibc".into(), "tcmalloc".into()]).unwrap();
        assert_eq!(names(&chosen), ["glibc", "tcmalloc"]);
    }

    #[test]
    fn the_default_has_no_variants() {
        let chosen = named(&["default".into()]).unwrap();
        assert!(chosen.len() > 5 && chosen.iter().all(|allocator| !allocator.is_variant()));
    }

    #[test]
    fn an_unknown_allocator_is_refused_with_the_known_ones() {
        let message = named(&["jemaloc".into()]).unwrap_err().to_string();
        assert!(message.contains("`jemaloc`") && message.contains("jemalloc-new"), "{message}");
    }

    #[test]
    fn no_setting_of_any_allocator_is_inherited() {
        for name in ["MALLOC_ARENA_MAX", "MALLOC_CONF", "MIMALLOC_PURGE_DELAY", "TCMALLOC_RELEASE_RATE"] {
            assert!(is_a_setting(OsStr::new(name)), "{name}");
        }
        assert!(!is_a_setting(OsStr::new("PATH")) && !is_a_setting(OsStr::new("HOME")));
    }

    #[test]
    fn glibc_is_proved_by_libc_and_a_preload_by_its_own_file() {
        let glibc = Ready { allocator: &ALLOCATORS[1], library: None };
        assert!(glibc.owns("/lib/x86_64-linux-gnu/libc.so.6"));
        let this = std::env::current_exe().unwrap().canonicalize().unwrap();
        let preloaded = Ready { allocator: &ALLOCATORS[0], library: Some(this.clone()) };
        assert!(preloaded.owns(this.to_str().unwrap()));
        assert!(!preloaded.owns("/lib/x86_64-linux-gnu/libc.so.6"));
    }
}
