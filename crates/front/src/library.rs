//! The place of libvcmalloc.so, and whether a file is fit to be preloaded.
//!
//! Owns the order of the places looked at; promises an absolute path that the dynamic loader can take, or a
//! failure that lists the places.

use crate::say::{Failure, OWN_FAILURE};
use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vcm_foreign::Shown;
use vcm_inspect::elf::{self, Depth, Look};
use vcm_inspect::root::Root;

/// Names the library to preload, for `vcm run` and the labs.
pub const LIBRARY_VARIABLE: &str = "VCM_LIBRARY";

/// The name that a program was linked with first: a name in a unit must outlive the package for developers, which
/// alone has the other. An archive of old may have the other alone.
const FILE_NAMES: [&str; 2] = ["libvcmalloc.so.0", "libvcmalloc.so"];
const HARDENED_FILE_NAMES: [&str; 2] = ["libvcmalloc-hardened.so.0", "libvcmalloc-hardened.so"];

/// A library that can be preloaded.
pub struct Library {
    /// Absolute.
    pub path: PathBuf,
    /// Of that file without symbolic links, as /proc shows it.
    pub real_path: PathBuf,
    /// The names of gperftools' or jemalloc's libraries whose place it takes, so that their interface reads our heap.
    pub stands_in_for: Vec<String>,
    /// Files to be preloaded behind it: the stand-in again, where a program needs it under more names than one.
    pub behind: Vec<PathBuf>,
}

/// As `find`, for the machine in a root: its own folders are searched, and a name is looked for there first.
pub fn find_in(root: &Root, asked_for: Option<&Path>, hardened: bool) -> Result<Library, Failure> {
    if root.is_real() {
        return find(asked_for, hardened);
    }
    if let Some(path) = asked_for {
        let below = root.path(path);
        return open(if below.is_file() { &below } else { path }, "--library");
    }
    let names = file_names(hardened);
    let places: Vec<PathBuf> =
        named(names, system_folders()).into_iter().map(|file| root.path(file)).collect();
    let shown = root.path("/");
    let shown = shown.shown();
    match places.iter().find(|path| path.is_file()) {
        Some(path) => open(path, "found by vcm"),
        None => Err(failure(format!(
            "{} was not found in the machine below {shown}. Searched:{}\nInstall it there ('make install \
             DESTDIR={shown}'), or give its path on that machine: --library PATH",
            names[0],
            listed(&places)
        ))),
    }
}

/// The library of `vcm record`, which is no allocator.
pub fn interposer(asked_for: Option<&Path>) -> Result<PathBuf, Failure> {
    let name = "libvcm_interposer.so";
    // Beside vcm where it was built, in the tools' own folder where they are installed.
    let names = [name, "vcm/libvcm_interposer.so"];
    let places = asked_for.map_or_else(|| places(names), |path| vec![path.to_path_buf()]);
    let found = places.iter().find(|path| path.is_file()).and_then(|path| std::path::absolute(path).ok());
    let path = found.ok_or_else(|| {
        failure(format!(
            "{name} was not found. Searched:{}\nInstall the package vcmalloc-tools, build it with 'make build', \
             or give its path: --library PATH",
            listed(&places)
        ))
    })?;
    if path.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(failure(format!(
            "{}: LD_PRELOAD cannot contain a path with a blank or a colon",
            path.shown()
        )));
    }
    Ok(path)
}

fn file_names(hardened: bool) -> [&'static str; 2] {
    if hardened { HARDENED_FILE_NAMES } else { FILE_NAMES }
}

fn listed(places: &[PathBuf]) -> String {
    let line = |path: &PathBuf| match path.read_link() {
        // A package that was unpacked in part, or removed by hand, leaves this.
        Ok(to) => format!("\n  {}: a link to {}, which does not exist", path.shown(), to.shown()),
        Err(_) => format!("\n  {}", path.shown()),
    };
    places.iter().map(line).collect()
}

/// The package that has it.
fn package(hardened: bool) -> &'static str {
    if hardened { "libvcmalloc-hardened0" } else { "libvcmalloc0" }
}

/// The library that was asked for, or else the first that is found. The hardened one lies beside the other.
pub fn find(asked_for: Option<&Path>, hardened: bool) -> Result<Library, Failure> {
    if let Some(path) = asked_for {
        return open(path, "--library");
    }
    let chosen = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let names = file_names(hardened);
    let mut places = places(names);
    match chosen {
        Some(path) if hardened => {
            places.splice(0..0, names.map(|name| path.with_file_name(name)));
        }
        Some(path) => return open(&path, LIBRARY_VARIABLE),
        None => {}
    }
    match places.iter().find(|path| path.is_file()) {
        Some(path) => open(path, "found by vcm"),
        None => Err(failure(format!(
            "{} was not found. Searched:{}\nInstall the package {}, build it with 'make build', or give its \
             path: vcm run --library PATH ..., or {LIBRARY_VARIABLE}=PATH",
            names[0],
            listed(&places),
            package(hardened)
        ))),
    }
}

/// How the names of gperftools' libraries begin; ours in their place has the same.
pub const STAND_IN_PREFIX: &str = "libtcmalloc";
/// The name of jemalloc's library, and of ours in its place.
pub const JEMALLOC_STAND_IN: &str = "libjemalloc.so.2";
/// For where the other library of that name is installed.
const STAND_IN_FOLDERS: [&str; 2] = ["vcmalloc", "vcmalloc/jemalloc"];

/// Whether a library of this name has one of ours that takes its place.
pub fn has_stand_in(name: &str) -> bool {
    name.starts_with(STAND_IN_PREFIX) || name == JEMALLOC_STAND_IN
}

/// The entries of a list of preloads that name jemalloc's library.
pub fn preloads_jemalloc(list: &str) -> bool {
    list.split([':', ' ']).any(|entry| entry.rsplit('/').next() == Some(JEMALLOC_STAND_IN))
}

impl Library {
    /// Whether it is, or brings, what takes the place of a library of this name.
    pub fn stands_in_for(&self, name: &str) -> bool {
        self.stands_in_for.iter().any(|own| own == name)
    }

    /// Whether an entry of LD_PRELOAD is the library whose place this takes, so that it would be loaded without use.
    pub fn replaces(&self, entry: &Path) -> bool {
        entry.file_name().is_some_and(|name| name == JEMALLOC_STAND_IN)
            && self.stands_in_for(JEMALLOC_STAND_IN)
    }

    /// The one beside this that takes the place of other libraries of these names, if it is there under each.
    pub fn stand_in_for<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<Library> {
        let mut all: Option<Library> = None;
        for name in names {
            let found = self.stand_in_named(name)?;
            match &mut all {
                None => all = Some(found),
                Some(first) if first.stands_in_for(name) => {}
                Some(first) => {
                    first.behind.push(found.path);
                    first.stands_in_for.extend(found.stands_in_for);
                }
            }
        }
        all
    }

    fn stand_in_named(&self, name: &str) -> Option<Library> {
        let folder = self.path.parent()?;
        [folder.to_path_buf()]
            .into_iter()
            .chain(STAND_IN_FOLDERS.map(|below| folder.join(below)))
            .map(|folder| folder.join(name))
            .filter(|path| path.is_file())
            // The library of that name that others made is none of ours, and `open` refuses it.
            .filter_map(|path| open(&path, "found by vcm").ok())
            .find(|library| library.stands_in_for(name))
    }
}

/// The folders of a machine's libraries.
fn system_folders() -> Vec<PathBuf> {
    ["/usr/local", "/usr"].iter().flat_map(|prefix| library_folders(Path::new(prefix))).collect()
}

fn library_folders(prefix: &Path) -> [PathBuf; 3] {
    let library = prefix.join("lib");
    [library.clone(), library.join(format!("{}-linux-gnu", env::consts::ARCH)), prefix.join("lib64")]
}

/// In each folder each name, so that the nearest folder wins.
fn named(names: [&str; 2], folders: Vec<PathBuf>) -> Vec<PathBuf> {
    folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).collect()
}

fn places(names: [&str; 2]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(beside) = env::current_exe().ok().and_then(|own| own.parent().map(Path::to_path_buf)) {
        folders.push(beside.clone());
        if let Some(above) = beside.parent() {
            folders.extend(library_folders(above));
        }
    }
    folders.extend(system_folders());
    let mut places: Vec<PathBuf> = Vec::new();
    for place in named(names, folders) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn failure(message: impl Into<String>) -> Failure {
    Failure::new(OWN_FAILURE, message)
}

/// The library at a path, or why it is not fit.
pub fn open(path: &Path, by: &str) -> Result<Library, Failure> {
    let shown = path.shown();
    let real_path = path.canonicalize().map_err(|error| match path.read_link() {
        Ok(to) => failure(format!("{shown} ({by}): a link to {}, which does not exist", to.shown())),
        Err(_) => failure(format!("{shown} ({by}): {error}")),
    })?;
    if real_path.is_dir() {
        return Err(failure(format!(
            "{shown} ({by}): it is a folder; give the file in it, {}",
            FILE_NAMES[1]
        )));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| real_path.clone());
    // LD_PRELOAD is a list that blanks and colons divide, and it has no way to quote them.
    if absolute.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(failure(format!(
            "{shown} ({by}): LD_PRELOAD cannot contain a path with a blank or a colon; move the library or link \
             to it"
        )));
    }
    let library = match elf::look(&real_path, Depth::ExportedSymbols) {
        Ok(Look::Elf(library)) => library,
        Ok(Look::Foreign { machine }) => {
            return Err(failure(format!("{shown} ({by}): it is built for {machine}, unlike this vcm")));
        }
        Ok(Look::Other) if real_path.metadata().is_ok_and(|file| file.len() == 0) => {
            return Err(failure(format!("{shown} ({by}): it is empty; install or build it again")));
        }
        Ok(Look::Script { .. } | Look::Other) => {
            return Err(failure(format!("{shown} ({by}): it is not a shared library")));
        }
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(failure(format!("{shown} ({by}): {error}; install or build it again")));
        }
        Err(error) => return Err(failure(format!("{shown} ({by}): cannot be read: {error}"))),
    };
    if !library.exports("malloc") {
        return Err(failure(format!(
            "{shown} ({by}): it exports no malloc, so preloading it would change nothing"
        )));
    }
    if !library.exports(elf::OWN_INTERFACE) {
        return Err(failure(format!(
            "{shown} ({by}): it exports no {}, so it is not vcmalloc and vcm could not verify it",
            elf::OWN_INTERFACE
        )));
    }
    // The loader takes it for a needed library by the name inside the file alone.
    let stands_in = library.exports(elf::TCMALLOC_INTERFACE) || library.exports(elf::JEMALLOC_INTERFACE);
    let stands_in_for = library.soname.iter().filter(|_| stands_in).cloned().collect();
    Ok(Library { path: absolute, real_path, stands_in_for, behind: Vec::new() })
}
