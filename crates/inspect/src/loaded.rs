//! The objects with code that a running process has loaded, in the order in which the dynamic loader looks
//! symbols up in them.
//!
//! Owns that order (ld.so(8)): the program, the preloads of the environment, those of /etc/ld.so.preload,
//! then needed libraries breadth first. An object that is mapped and wanted by nobody came later, by dlopen,
//! and is not looked up in. Without the environment a preload looks the same, unless the loader's own list tells them
//! apart; `Loaded::is_order_known` says so.

use super::elf::{self, Depth, Elf, Look};
use super::process::Process;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vcm_foreign::{Shown, Text, file};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BroughtBy {
    Program,
    /// LD_PRELOAD, or /etc/ld.so.preload.
    Preload,
    /// A library that the program or another library is linked with.
    Linked,
    /// Opened while the program runs, or a preload that cannot be told from it.
    Later,
}

pub struct Object {
    /// As the process names it.
    pub path: PathBuf,
    /// The file was replaced or removed since it was loaded.
    pub is_replaced: bool,
    pub brought_by: BroughtBy,
    /// None where the file cannot be read.
    pub elf: Option<Box<Elf>>,
    /// The path at which we read it.
    pub file: PathBuf,
}

pub struct Loaded {
    /// In the order of lookup; objects that came `Later` last.
    pub objects: Vec<Object>,
    /// False where the environment is empty or cannot be read, and the loader's list neither: the preloads are then not
    /// known.
    pub is_order_known: bool,
    pub is_environment_empty: bool,
    /// Entries of LD_PRELOAD that are not in the process: the loader refused them, or they are empty now.
    pub refused_preloads: Vec<Text>,
}

/// The kernel puts this behind the name of a file that was replaced or removed since.
pub const REPLACED: &str = " (deleted)";

pub fn of(process: &Process, environment: Option<&[(OsString, OsString)]>) -> io::Result<Loaded> {
    let mut mapped = mapped_code(process)?;
    let program = process.program()?;
    let program_name = without_mark(&program).0;
    let mut order = Vec::new();
    if let Some(at) = mapped.iter().position(|object| object.path == program_name) {
        let mut object = mapped.remove(at);
        object.brought_by = BroughtBy::Program;
        // The full symbol table tells an allocator that is built in and kept private.
        object.elf = read(&object.file, Depth::AllSymbols);
        order.push(object);
    }
    let is_environment_empty = environment.is_some_and(<[_]>::is_empty);
    let mut is_order_known = environment.is_some() && !is_environment_empty;
    if !is_order_known && let Some(preloads) = preloads_by_the_loader(process, &order, &mapped) {
        is_order_known = true;
        for path in preloads {
            let at = mapped.iter().position(|object| object.path == path);
            let object = at.map(|at| mapped.remove(at));
            order.extend(object.map(|object| Object { brought_by: BroughtBy::Preload, ..object }));
        }
    }
    let mut refused_preloads = Vec::new();
    for entry in preloads(process, environment) {
        match take(&mut mapped, process, &entry) {
            Some(object) => order.push(Object { brought_by: BroughtBy::Preload, ..object }),
            None if order.iter().any(|object| is_meant(object, process, &entry)) => {}
            None => refused_preloads.push(entry.shown()),
        }
    }
    let mut open: VecDeque<String> = order.iter().flat_map(needed_by).collect();
    while let Some(name) = open.pop_front() {
        if let Some(object) = take(&mut mapped, process, OsStr::new(&name)) {
            open.extend(needed_by(&object));
            order.push(Object { brought_by: BroughtBy::Linked, ..object });
        }
    }
    order.extend(mapped);
    Ok(Loaded { objects: order, is_order_known, is_environment_empty, refused_preloads })
}

/// The preloads by the loader's list: the objects between the program and the first library that it is linked with.
/// None where the list cannot be read, or names no such library.
fn preloads_by_the_loader(process: &Process, program: &[Object], mapped: &[Object]) -> Option<Vec<PathBuf>> {
    let program = program.first()?;
    let order = process.order_of_loading()?;
    let order: Vec<PathBuf> = order.iter().map(|path| without_mark(path).0).collect();
    let needed = needed_by(program);
    let is_needed = |path: &PathBuf| {
        let object = mapped.iter().find(|object| object.path == *path);
        object.is_some_and(|object| needed.iter().any(|name| is_meant(object, process, OsStr::new(name))))
    };
    let (first, others) = order.split_first()?;
    let end = others.iter().position(is_needed).filter(|_| *first == program.path)?;
    others.get(..end).map(<[_]>::to_vec)
}

fn needed_by(object: &Object) -> Vec<String> {
    object.elf.as_ref().map_or(Vec::new(), |elf| elf.needed.clone())
}

fn read(file: &Path, depth: Depth) -> Option<Box<Elf>> {
    match elf::look(file, depth) {
        Ok(Look::Elf(elf)) => Some(elf),
        _ => None,
    }
}

fn without_mark(path: &Path) -> (PathBuf, bool) {
    match path.as_os_str().as_bytes().strip_suffix(REPLACED.as_bytes()) {
        Some(name) => (PathBuf::from(OsStr::from_bytes(name)), true),
        None => (path.to_path_buf(), false),
    }
}

/// The files of which the process has code mapped, each once, in the order of their addresses.
fn mapped_code(process: &Process) -> io::Result<Vec<Object>> {
    let maps = file::text_of_kernel(&process.file("maps"))?;
    let mut objects: Vec<Object> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some(at) = line.find('/').filter(|_| rights.contains('x')) else { continue };
        let (path, is_replaced) = without_mark(Path::new(line.get(at..).unwrap_or_default()));
        if objects.iter().any(|object| object.path == path) {
            continue;
        }
        // The kernel still has the replaced file.
        let file = if is_replaced {
            process.file("map_files").join(range)
        } else {
            process.as_kernel_names_it(&path)
        };
        let elf = read(&file, Depth::ExportedSymbols);
        objects.push(Object { path, is_replaced, brought_by: BroughtBy::Later, elf, file });
    }
    Ok(objects)
}

/// The preloads that the loader was told of, first to last.
fn preloads(process: &Process, environment: Option<&[(OsString, OsString)]>) -> Vec<OsString> {
    let variable = environment.and_then(|variables| {
        variables.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, value)| value.clone())
    });
    let file = file::read(&process.as_seen_by_it(Path::new("/etc/ld.so.preload"))).unwrap_or_default();
    let file: Vec<u8> = file
        .split(|byte| *byte == b'\n')
        .flat_map(|line| [line.split(|byte| *byte == b'#').next().unwrap_or_default(), b" "])
        .flatten()
        .copied()
        .collect();
    let variable = variable.unwrap_or_default();
    [variable.as_bytes(), &file]
        .into_iter()
        .flat_map(|list| list.split(|byte| *byte == b':' || byte.is_ascii_whitespace()))
        .filter(|entry| !entry.is_empty())
        .map(|entry| with_folder(process, OsStr::from_bytes(entry)))
        .collect()
}

/// The loader's word for the folder of libraries, which differs from system to system, as the file that it leads to.
fn with_folder(process: &Process, entry: &OsStr) -> OsString {
    const WORDS: [&str; 2] = ["$LIB", "${LIB}"];
    let text = entry.to_string_lossy();
    let Some(word) = WORDS.into_iter().find(|word| text.contains(word)) else { return entry.to_os_string() };
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = [multiarch.as_str(), "lib64", "lib"].map(|folder| text.replace(word, folder));
    let found = places.into_iter().find(|place| process.as_seen_by_it(Path::new(place)).is_file());
    found.map_or_else(|| entry.to_os_string(), OsString::from)
}

/// Why the loader may have left out a preload that a process was told of, as far as the file shows it now.
pub fn why_refused(process: &Process, entry: &Text) -> String {
    if !entry.as_bytes().contains(&b'/') {
        return "it is not in the loader's folders, or the loader refused it".into();
    }
    let path = process.as_seen_by_it(entry.as_path());
    if let Err(error) = fs::metadata(&path) {
        return match error.kind() {
            io::ErrorKind::NotFound if fs::symlink_metadata(&path).is_ok() => {
                "it is a link to a file that does not exist for it".into()
            }
            io::ErrorKind::NotFound => "which does not exist for it".into(),
            _ => error.to_string(),
        };
    }
    match elf::look(&path, Depth::Loading) {
        Ok(Look::Elf(_)) => "which exists: created after the start, or refused".into(),
        Ok(Look::Foreign { machine }) => format!("it is built for {machine}"),
        Ok(Look::Script { .. } | Look::Other) => "it is not a shared library".into(),
        Err(error) => format!("it cannot be read: {error}"),
    }
}

/// Takes the object that `name` means, a path or the name of a library, out of those that are left.
fn take(objects: &mut Vec<Object>, process: &Process, name: &OsStr) -> Option<Object> {
    let at = objects.iter().position(|object| is_meant(object, process, name))?;
    Some(objects.remove(at))
}

fn is_meant(object: &Object, process: &Process, name: &OsStr) -> bool {
    if name.as_bytes().contains(&b'/') {
        // By identity: through /proc/PID/root a path cannot be made canonical.
        let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let named = identity(&process.as_seen_by_it(Path::new(name)));
        return object.path.as_os_str() == name || (named.is_some() && named == identity(&object.file));
    }
    let soname = object.elf.as_ref().and_then(|elf| elf.soname.as_deref());
    soname.is_some_and(|soname| name == soname) || object.path.file_name() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_own_process_has_its_program_first_and_libc_behind() {
        let own = Process::new(std::process::id() as i32);
        let environment = own.environment().unwrap();
        let loaded = of(&own, Some(&environment)).unwrap();
        let kinds: Vec<BroughtBy> = loaded.objects.iter().map(|object| object.brought_by).collect();
        assert_eq!(kinds.first(), Some(&BroughtBy::Program));
        let libc = loaded.objects.iter().find(|object| object.path.ends_with("libc.so.6")).unwrap();
        assert_eq!(libc.brought_by, BroughtBy::Linked);
        assert!(libc.elf.as_ref().unwrap().exports("malloc"));
        assert!(loaded.is_order_known && loaded.refused_preloads.is_empty());
    }
}
