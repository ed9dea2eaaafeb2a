//! The allocators that a program can be put under, declared once each.
//!
//! Owns their names, files, packages, settings and colours. [`Places::find`] turns a declaration into a [`Ready`]
//! allocator, or says how to get it.

use crate::nearest;
use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The origin of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The C library of the system: nothing is preloaded.
    Glibc,
    /// The first of these files that is there, of this Debian package. `linked` comes before them for daemons that
    /// may be linked with it: two copies would both believe that they are the process's malloc.
    Debian {
        files: &'static [&'static str],
        linked: Option<&'static str>,
        package: &'static str,
    },
    /// Built by `vcm-bench peers` from a crate; the name is the feature of bench/peers.
    Built(&'static str),
    Ours,
    /// Ours that checks every block, beside [`Library::Ours`].
    Hardened,
    /// Nobody offers it as a package or a crate; the reason.
    Absent(&'static str),
}

/// An allocator with its settings: what one column of a table stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocator {
    /// As typed after --allocators and as printed.
    pub name: &'static str,
    pub library: Library,
    pub environment: &'static [(&'static str, &'static str)],
    /// For a reader who does not know the name.
    pub what: &'static str,
    /// In pictures: red, green, blue.
    pub colour: (u8, u8, u8),
    /// An allocator that somebody would choose, with no setting that no user gets unasked: ratios are taken of
    /// these. The others are variants for single questions.
    pub is_peer: bool,
}

impl Allocator {
    pub fn is_ours(&self) -> bool {
        matches!(self.library, Library::Ours | Library::Hardened)
    }

    /// The Debian package that has it.
    pub fn package(&self) -> Option<&'static str> {
        match self.library {
            Library::Debian { package, .. } => Some(package),
            _ => None,
        }
    }
}

const JEMALLOC: Library =
    Library::Debian { files: &["libjemalloc.so.2"], linked: None, package: "libjemalloc2" };
const TCMALLOC: Library = Library::Debian {
    files: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"],
    linked: Some("libtcmalloc.so.4"),
    package: "libtcmalloc-minimal4",
};
const MIMALLOC: Library = Library::Debian {
    files: &["libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so.2.1", "libmimalloc.so.3"],
    linked: None,
    package: "libmimalloc2.0",
};
const TCMALLOC_BOUND: &str = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";
/// Without huge pages that nobody asked for, as ours begins.
const SMALL_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");
const LOCKED: (&str, &str) = ("VCM_FRONT", "locked");
/// Takes the thread's rseq area away from glibc: google/tcmalloc then has its per-CPU mode.
const NO_GLIBC_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
/// Without the thread slow paths would do its work: so long a delay and so much to retain leave nothing to
/// do.
const NO_JANITOR: [(&str, &str); 3] =
    [("VCM_JANITOR", "off"), ("VCM_RELEASE_DELAY", "1h"), ("VCM_RETAIN", "1T")];

const fn peer(name: &'static str, library: Library, colour: (u8, u8, u8), what: &'static str) -> Allocator {
    Allocator { name, library, environment: &[], what, colour, is_peer: true }
}

const fn variant(
    name: &'static str,
    library: Library,
    environment: &'static [(&'static str, &'static str)],
    colour: (u8, u8, u8),
    what: &'static str,
) -> Allocator {
    Allocator { name, library, environment, what, colour, is_peer: false }
}

/// All of them, in the order of the columns. Colours can be told apart on light and on dark ground; ours are the warm
/// ones.
#[rustfmt::skip]
pub static ALLOCATORS: &[Allocator] = &[
    peer("vcmalloc", Library::Ours, (222, 66, 56), "vcmalloc"),
    peer("glibc", Library::Glibc, (140, 146, 156), "the C library's malloc"),
    peer("jemalloc", JEMALLOC, (76, 134, 214), "jemalloc as packaged"),
    peer("tcmalloc", TCMALLOC, (52, 160, 96),
        "gperftools' TCMalloc with thread caches of 32 MiB together, the library's default"),
    peer("mimalloc", MIMALLOC, (228, 148, 44), "mimalloc as packaged"),
    peer("jemalloc-new", Library::Built("jemalloc"), (44, 92, 160), "the newest jemalloc that crates.io has"),
    peer("mimalloc2-new", Library::Built("mimalloc2"), (190, 120, 30), "the newest mimalloc 2 that crates.io has"),
    peer("mimalloc3-new", Library::Built("mimalloc3"), (205, 140, 220), "the newest mimalloc 3 that crates.io has"),
    peer("snmalloc-new", Library::Built("snmalloc"), (150, 100, 70), "the newest snmalloc that crates.io has"),
    peer("rpmalloc-new", Library::Built("rpmalloc"), (120, 150, 150), "the newest rpmalloc that crates.io has"),
    peer("pprof-new", Library::Built("mimalloc-pprof"), (170, 110, 180), "mimalloc-pprof, the newest that crates.io has"),
    peer("google-new", Library::Built("tcmalloc"), (30, 120, 110), "the newest google/tcmalloc that crates.io has"),
    variant("vcmalloc-1M", Library::Ours, &[("VCM_CACHE_LIMIT", "1M")], (226, 124, 170),
        "vcmalloc with caches of 1 MiB together"),
    variant("vcmalloc-locked", Library::Ours, &[LOCKED], (235, 130, 110),
        "vcmalloc without restartable sequences"),
    variant("vcmalloc-no-janitor", Library::Ours, &NO_JANITOR, (240, 150, 130), "vcmalloc without its thread"),
    variant("jemalloc-background", JEMALLOC, &[("MALLOC_CONF", "background_thread:true")], (110, 170, 230),
        "jemalloc with its background thread"),
    variant("tcmalloc-1M", TCMALLOC, &[(TCMALLOC_BOUND, "1048576")], (150, 190, 60),
        "TCMalloc with thread caches of 1 MiB together: starved, as in 2015"),
    variant("tcmalloc-128M", TCMALLOC, &[(TCMALLOC_BOUND, "134217728")], (40, 166, 170),
        "TCMalloc with thread caches of 128 MiB together, which Ceph's packages set in /etc/default/ceph"),
    variant("vcmalloc-hardened", Library::Hardened, &[], (180, 40, 90), "vcmalloc that checks every block"),
    variant("vcmalloc-profile", Library::Ours, &[("VCM_PROFILE", "on")], (250, 170, 150),
        "vcmalloc while a heap profile runs, with a sample in 512 KiB"),
    variant("gperftools-new", Library::Absent("crates.io has none newer than Debian's 2.10: that of tcmalloc-sys 0.3.0 is of 2018"),
        &[], (20, 110, 60), "the newest gperftools that crates.io has"),
    variant("mimalloc2-small-pages", Library::Built("mimalloc2"), &[SMALL_PAGES], (170, 90, 20),
        "the newest mimalloc 2 without transparent huge pages"),
    variant("mimalloc3-small-pages", Library::Built("mimalloc3"), &[SMALL_PAGES], (185, 100, 205),
        "the newest mimalloc 3 without transparent huge pages"),
    variant("google-rseq", Library::Built("tcmalloc"), &[NO_GLIBC_RSEQ], (60, 150, 140),
        "google/tcmalloc with caches per CPU"),
];

/// The global allocator of a program in Rust: the feature of bench/rust, and the crate. `system` is the C
/// library's.
pub const CRATES: [(&str, &str); 11] = [
    ("vcmalloc", "vcmalloc"),
    ("vcmalloc-janitor", "vcmalloc"),
    ("jemalloc", "tikv-jemallocator"),
    ("mimalloc", "mimalloc"),
    ("mimalloc-pprof", "mimalloc-pprof"),
    ("snmalloc", "snmalloc-rs"),
    ("rpmalloc", "rpmalloc"),
    ("sefer", "sefer-alloc"),
    ("tcmalloc-better", "tcmalloc-better"),
    ("ferroc", "ferroc"),
    ("system", ""),
];

/// Names in results of earlier versions, and what they are called now.
const FORMER_NAMES: [(&str, &str); 1] = [("mimalloc2", "mimalloc")];

/// The allocator of this name, or one that was called so.
pub fn known(name: &str) -> Option<&'static Allocator> {
    let now = FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| *now);
    ALLOCATORS.iter().find(|allocator| allocator.name == now)
}

/// In pictures; of what is no allocator too.
pub fn colour_of(name: &str) -> (u8, u8, u8) {
    known(name).map_or((150, 110, 200), |known| known.colour)
}

/// The allocator of this name, or an error that suggests one.
pub fn named(name: &str) -> Result<&'static Allocator, String> {
    let suggestion = || nearest::suggestion(name, ALLOCATORS.iter().map(|allocator| allocator.name));
    known(name).ok_or_else(|| format!("there is no allocator '{name}'{}", suggestion()))
}

/// The allocators of these names, in the order of the table and each once; `default` and `all` are groups.
pub fn chosen(
    names: &[String],
    is_default: fn(&Allocator) -> bool,
) -> Result<Vec<&'static Allocator>, String> {
    let groups = ["default", "all"];
    names
        .iter()
        .filter(|name| !groups.contains(&name.as_str()))
        .try_for_each(|name| named(name).map(drop))?;
    let is_chosen = |allocator: &&Allocator| {
        names.iter().any(|name| match name.as_str() {
            "all" => true,
            "default" => is_default(allocator),
            name => known(name) == Some(*allocator),
        })
    };
    Ok(ALLOCATORS.iter().filter(is_chosen).collect())
}

/// The places where libraries are looked for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub ours: PathBuf,
    /// The folder where `vcm-bench peers` leaves what it builds.
    pub built_peers: PathBuf,
    /// Another system, for a chroot: paths are as seen from inside.
    pub root: Option<PathBuf>,
    /// The programs may be linked with an allocator.
    pub for_daemons: bool,
}

impl Places {
    /// Our library and those that were built beside this program, unless a path to ours is given.
    pub fn beside_this_program(ours: Option<PathBuf>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let directory = program.parent().unwrap_or(Path::new("."));
        Ok(Self {
            ours: ours.unwrap_or_else(|| directory.join("libvcmalloc.so")),
            built_peers: directory.join("peers"),
            ..Self::default()
        })
    }

    pub fn built_peer(&self, name: &str) -> PathBuf {
        self.built_peers.join(format!("libpeer_{name}.so"))
    }

    /// The allocator with its file, or an error that says what is missing and how to get it.
    pub fn find(&self, allocator: &'static Allocator) -> Result<Ready> {
        let ready = |library| Ok(Ready { allocator, library });
        let (found, remedy) = match allocator.library {
            Library::Glibc => return ready(None),
            Library::Debian { files, linked, package } => {
                let linked = linked.filter(|_| self.for_daemons);
                let found = linked.iter().chain(files).find_map(|file| self.in_a_library_folder(file));
                (found, format!("Debian's package {package} has it"))
            }
            Library::Built(name) => {
                (self.there(self.built_peer(name)), format!("get it with `vcm-bench peers {name}`"))
            }
            Library::Ours => (
                self.there(self.ours.clone()),
                "get it with `cargo build --release -p vcmalloc-shared`".to_owned(),
            ),
            Library::Hardened => {
                let files = ["libvcmalloc-hardened.so", "libvcmalloc_hardened.so"];
                let found = files.into_iter().find_map(|file| self.there(self.ours.with_file_name(file)));
                (found, "get it with `cargo build --release -p vcmalloc-hardened`".to_owned())
            }
            Library::Absent(reason) => (None, reason.to_owned()),
        };
        match (found, &self.root) {
            (Some(library), _) => ready(Some(library)),
            (None, None) => bail!("{} is missing; {remedy}", allocator.name),
            (None, Some(root)) => {
                let package = allocator.package().unwrap_or("unknown");
                bail!("{} is missing in {}: package {package}", allocator.name, root.display())
            }
        }
    }

    fn in_a_library_folder(&self, file: &str) -> Option<PathBuf> {
        let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let folders = [multiarch.as_str(), "/usr/lib", "/usr/lib64", "/usr/local/lib"];
        folders.into_iter().find_map(|folder| self.there(Path::new(folder).join(file)))
    }

    /// The file by its own name, which is the one that the kernel shows of a process that has it mapped.
    fn there(&self, path: PathBuf) -> Option<PathBuf> {
        match &self.root {
            None => path.canonicalize().ok(),
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)).exists().then_some(path),
        }
    }
}

/// An allocator whose library was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    pub allocator: &'static Allocator,
    /// As the program will see it; none for glibc.
    pub library: Option<PathBuf>,
}

impl Ready {
    pub fn name(&self) -> &'static str {
        self.allocator.name
    }

    /// The variables that put a program on it.
    pub fn environment(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        let preload = self.library.iter().map(|path| ("LD_PRELOAD", path.as_os_str()));
        preload.chain(self.allocator.environment.iter().map(|(name, value)| (*name, OsStr::new(*value))))
    }

    /// A command that runs on this allocator, and on no setting left over from the caller's environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = without_settings(program.as_os_str());
        command.envs(self.environment());
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

/// A command that takes no setting of an allocator from the caller's environment.
pub fn without_settings(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_a_setting(name)) {
        command.env_remove(name);
    }
    command
}

fn is_a_setting(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    SETTINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Those of the chosen that are there; the rest is named on stderr with the reason.
pub fn ready(chosen: &[&'static Allocator], places: &Places) -> Vec<Ready> {
    let mut found = Vec::new();
    for &allocator in chosen {
        match places.find(allocator) {
            Ok(ready) => found.push(ready),
            Err(reason) => eprintln!("without {}: {reason}", allocator.name),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_allocator_suggests_the_nearest() {
        let error = named("jemaloc").unwrap_err();
        assert!(error.contains("'jemaloc'") && error.contains("did you mean 'jemalloc'"), "{error}");
        assert!(error.contains("jemalloc-new"), "{error}");
    }

    #[test]
    fn allocators_come_in_the_order_of_the_table_and_each_once() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let chosen = super::chosen(&names, |allocator| allocator.is_peer)?;
            Ok::<_, String>(chosen.iter().map(|allocator| allocator.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&["tcmalloc", "glibc", "tcmalloc"]).unwrap(), ["glibc", "tcmalloc"]);
        let default = chosen(&["default"]).unwrap();
        assert!(default.len() > 5 && default.iter().all(|name| named(name).unwrap().is_peer));
        assert!(chosen(&["all"]).unwrap().len() > default.len() && chosen(&["defaults"]).is_err());
    }

    #[test]
    fn a_name_of_earlier_results_is_the_allocator_of_today() {
        assert_eq!(known("mimalloc2"), known("mimalloc"));
        assert!(FORMER_NAMES.iter().all(|(former, now)| known(now).is_some_and(|one| one.name != *former)));
    }

    #[test]
    fn every_name_and_colour_is_there_once() {
        for (index, one) in ALLOCATORS.iter().enumerate() {
            let twin = |other: &&Allocator| other.name == one.name || other.colour == one.colour;
            assert_eq!(ALLOCATORS[index + 1..].iter().find(twin), None);
        }
    }

    #[test]
    fn no_setting_of_any_allocator_is_inherited() {
        for name in ["MALLOC_ARENA_MAX", "MALLOC_CONF", "MIMALLOC_PURGE_DELAY", "TCMALLOC_RELEASE_RATE"] {
            assert!(is_a_setting(OsStr::new(name)), "{name}");
        }
        let own = ALLOCATORS.iter().flat_map(|allocator| allocator.environment);
        own.for_each(|(name, _)| assert!(is_a_setting(OsStr::new(name)), "{name}"));
        assert!(!is_a_setting(OsStr::new("PATH")) && !is_a_setting(OsStr::new("HOME")));
    }

    #[test]
    fn glibc_is_proved_by_libc_and_a_preload_by_its_own_file() {
        let glibc = Places::default().find(named("glibc").unwrap()).unwrap();
        assert!(glibc.owns("/lib/x86_64-linux-gnu/libc.so.6"));
        let this = std::env::current_exe().unwrap().canonicalize().unwrap();
        let preloaded = Ready { allocator: named("vcmalloc").unwrap(), library: Some(this.clone()) };
        assert!(preloaded.owns(this.to_str().unwrap()));
        assert!(!preloaded.owns("/lib/x86_64-linux-gnu/libc.so.6"));
    }

    #[test]
    fn a_library_in_a_chroot_is_named_as_seen_from_inside() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib64");
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4"] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let places = Places { root: Some(root.path().to_owned()), ..Places::default() };
        let library = |places: &Places, name| places.find(named(name).unwrap()).map(|ready| ready.library);
        let file = |name: &str| Some(Path::new("/usr/lib64").join(name));
        assert_eq!(library(&places, "jemalloc").unwrap(), file("libjemalloc.so.2"));
        assert_eq!(library(&places, "tcmalloc").unwrap(), file("libtcmalloc_minimal.so.4"));
        let for_daemons = Places { for_daemons: true, ..places.clone() };
        assert_eq!(library(&for_daemons, "tcmalloc").unwrap(), file("libtcmalloc.so.4"));
        let missing = library(&places, "mimalloc").unwrap_err().to_string();
        assert!(missing.ends_with("package libmimalloc2.0"), "{missing}");
    }

    #[test]
    fn settings_come_with_the_library() {
        let library = Some(PathBuf::from("/ours.so"));
        let starved = Ready { allocator: named("vcmalloc-1M").unwrap(), library };
        let environment: Vec<_> = starved.environment().collect();
        assert_eq!(
            environment,
            [("LD_PRELOAD", OsStr::new("/ours.so")), ("VCM_CACHE_LIMIT", OsStr::new("1M"))]
        );
    }
}
