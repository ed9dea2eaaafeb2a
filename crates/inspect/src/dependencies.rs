//! The shared libraries that a program will load, found in the order of the dynamic loader (ld.so(8)).
//!
//! Owns the search; does not run the loader, which would run code of the program's choosing. If the two differ
//! (hardware-specific folders, preloads of other users), a library is missing from the answer, never invented.

use super::elf::{self, Depth, Elf, Look};
use super::root::Root;
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

/// A library that something in the program needs.
pub struct Dependency {
    /// The name it is asked for by, such as `libtcmalloc.so.4`.
    pub name: String,
    /// Its path; none if it was not found.
    pub path: Option<PathBuf>,
    /// The file that asks for it.
    pub wanted_by: PathBuf,
}

/// All libraries that `program` needs, directly or through others, nearest first, on the machine whose files
/// are in `root`; `program` and the answers are our own paths.
pub fn of_in(root: &Root, program: &Path, elf: &Elf, library_path: &str) -> Vec<Dependency> {
    let search = Search::new(root, library_path);
    let mut found: Vec<Dependency> = Vec::new();
    let mut seen = HashSet::new();
    let mut open = VecDeque::from([(program.to_path_buf(), Asker::new(program, elf, &[]))]);
    while let Some((wanted_by, asker)) = open.pop_front() {
        for name in &asker.needed {
            if !seen.insert(name.clone()) {
                continue;
            }
            let path = search.find(name, &asker);
            if let Some(path) = &path
                && let Ok(Look::Elf(library)) = elf::look(path, Depth::Loading)
            {
                open.push_back((path.clone(), Asker::new(path, &library, &asker.rpath)));
            }
            found.push(Dependency { name: name.clone(), path, wanted_by: wanted_by.clone() });
        }
    }
    found
}

/// The places that a file names for the libraries that it needs.
struct Asker {
    needed: Vec<String>,
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
}

impl Asker {
    /// DT_RPATH holds for the libraries of libraries too, unless the file has a DT_RUNPATH.
    fn new(path: &Path, elf: &Elf, inherited: &[PathBuf]) -> Self {
        let origin = path.canonicalize().ok().and_then(|real| real.parent().map(Path::to_path_buf));
        let origin = origin.unwrap_or_default().to_string_lossy().into_owned();
        let place =
            |entry: &String| PathBuf::from(entry.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
        let runpath: Vec<PathBuf> = elf.runpath.iter().map(place).collect();
        let rpath = if runpath.is_empty() {
            elf.rpath.iter().map(place).chain(inherited.iter().cloned()).collect()
        } else {
            Vec::new()
        };
        Asker { needed: elf.needed.clone(), rpath, runpath }
    }
}

struct Search {
    library_path: Vec<PathBuf>,
    system: Vec<PathBuf>,
}

impl Search {
    fn new(root: &Root, library_path: &str) -> Self {
        let library_path = library_path
            .split([':', ';'])
            .filter(|part| !part.is_empty())
            .map(|part| root.path(part))
            .collect();
        let mut system = Vec::new();
        configured_folders(&root.path("/etc/ld.so.conf"), &mut system, 0);
        let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
        for folder in ["/lib", "/usr/lib"] {
            system.push(Path::new(folder).join(&multiarch));
        }
        system.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
        let system = system.into_iter().map(|folder| root.path(folder)).collect();
        Search { library_path, system }
    }

    fn find(&self, name: &str, asker: &Asker) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let folders = asker.rpath.iter().chain(&self.library_path).chain(&asker.runpath).chain(&self.system);
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

/// The folders that /etc/ld.so.conf names, with the files that it includes.
fn configured_folders(file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    const DEEPEST: usize = 4;
    let Ok(content) = vcm_foreign::file::text(file) else { return };
    for line in content.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        match line.strip_prefix("include") {
            Some(pattern) if depth < DEEPEST => {
                for included in matching(file, pattern.trim()) {
                    configured_folders(&included, folders, depth + 1);
                }
            }
            None if line.starts_with('/') => folders.push(PathBuf::from(line)),
            _ => {}
        }
    }
}

/// Files that an include line means: one `*` in the last part of the path is all that distributions use.
fn matching(file: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = file.parent().unwrap_or(Path::new("/etc")).join(pattern);
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let (before, after) = name.split_once('*').unwrap_or((name, ""));
    let fits = |found: &str| {
        if name.contains('*') { found.starts_with(before) && found.ends_with(after) } else { found == name }
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_own_program_needs_a_libc_that_is_found() {
        let own = std::env::current_exe().unwrap();
        let Ok(Look::Elf(elf)) = elf::look(&own, Depth::Loading) else { panic!("not an ELF file") };
        let all = of_in(&Root::real(), &own, &elf, "");
        let libc = all.iter().find(|library| library.name == "libc.so.6").expect("libc.so.6 is needed");
        assert!(libc.path.is_some());
        assert_eq!(libc.wanted_by, own);
    }

    #[test]
    fn an_include_line_takes_a_pattern() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), "/from/".to_string() + name).unwrap();
        }
        let main = folder.path().join("ld.so.conf");
        std::fs::write(&main, "# folders\n/first\ninclude *.conf # these\n").unwrap();
        let mut folders = Vec::new();
        std::fs::rename(&main, folder.path().join("main")).unwrap();
        configured_folders(&folder.path().join("main"), &mut folders, 0);
        assert_eq!(folders, ["/first", "/from/a.conf", "/from/b.conf"].map(PathBuf::from));
    }
}
