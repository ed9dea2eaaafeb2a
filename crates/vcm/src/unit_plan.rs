//! The plan by which a unit's program runs on vcmalloc, or on another allocator.
//!
//! Owns the decisions: the stand-in where TCMalloc or jemalloc is linked, the existing preload kept behind ours, an
//! environment file where one of the unit's would win over us, and the cases in which nothing may be done;
//! `findings` says which programs those are.

use crate::drop_in::{self, File, Place};
use crate::findings::{self, Start, Weight};
use crate::sandbox;
use crate::settings;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use vcm_front::library::{self, Library};
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD};
use vcm_inspect::command;
use vcm_inspect::dependencies;
use vcm_inspect::elf::{self, Depth, Look};
use vcm_inspect::root::Root;
use vcm_inspect::systemd::file::Assignment;
use vcm_inspect::systemd::{self, NoUnit, Unit};
use vcmalloc_core::options::{OptionId, Options, spec};

const PRELOAD: &str = "LD_PRELOAD";

/// The library that the operator asked for.
pub struct Wanted<'a> {
    pub library: Option<&'a Path>,
    pub hardened: bool,
}

pub struct Plan {
    pub is_stand_in: bool,
    /// The file that is to serve its malloc, as /proc shows it; none where only variables are given.
    pub library: Option<PathBuf>,
    /// Said before the files.
    pub notes: Vec<String>,
    unit: String,
    variables: Vec<(String, String)>,
    /// The variables must come from a file, because one of the unit's files would win over them.
    by_file: bool,
}

impl Plan {
    pub fn of(root: &Root, unit: &Unit, given: &[String], wanted: &Wanted) -> Result<Self, Failure> {
        let variables = settings::variables_of(given).map_err(|wrong| {
            wrong.iter().for_each(|line| say::line(line));
            Failure::new(NOT_UNDERSTOOD, "nothing was written")
        })?;
        let program = program_of(root, unit)?;
        let mut notes = Vec::new();
        let linked = linked_stand_ins(root, &program);
        let (tcmalloc, mut jemalloc): (Vec<_>, Vec<_>) =
            linked.into_iter().partition(|name| name.starts_with(library::STAND_IN_PREFIX));
        let is_linked = !jemalloc.is_empty();
        if !is_linked && preloads_jemalloc(root, unit) {
            jemalloc.push(library::JEMALLOC_STAND_IN.into());
        }
        let library = choose(root, wanted, &tcmalloc, &jemalloc, &program)?;
        if !tcmalloc.is_empty() {
            let (program, library, names) =
                (program.display(), library.path.display(), tcmalloc.join(" and "));
            notes.push(format!("{program} is linked with {names}, so the stand-in {library} is preloaded."));
        } else if let Some(name) = jemalloc.first().filter(|name| library.stands_in_for(name)) {
            let why = if is_linked { "is linked with" } else { "has a preload of" };
            let (program, library) = (program.display(), library.path.display());
            notes.push(format!(
                "{program} {why} {name}, so the stand-in {library} is preloaded; it answers mallctl and reads \
                 MALLOC_CONF."
            ));
        }
        notes.extend(in_a_build_tree(&library.path));
        notes.extend(what_its_file_shows(root, unit, &program, &library)?);
        let mut paths = Vec::new();
        for path in [&library.path].into_iter().chain(&library.behind) {
            paths.push(inside(root, path, &library)?);
        }
        let fitted = sandbox::fit(root, unit, &variables)?;
        notes.extend(fitted.notes);
        let variables: Vec<_> = variables.into_iter().chain(fitted.variables).collect();
        let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
        sandbox::check(root, unit, &paths, &names)?;

        let mut plan = Self::with(root, unit, &paths, variables, Some(&library));
        (plan.is_stand_in, plan.library) = (!tcmalloc.is_empty(), Some(library.real_path));
        notes.append(&mut plan.notes);
        plan.notes = notes;
        Ok(plan)
    }

    /// The same for another allocator, or for variables alone.
    pub fn preloading(
        root: &Root,
        unit: &Unit,
        library: Option<&Path>,
        variables: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        program_of(root, unit)?;
        let paths: Vec<PathBuf> = library.map(Path::to_path_buf).into_iter().collect();
        let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
        sandbox::check(root, unit, &paths, &names)?;
        let mut plan = Self::with(root, unit, &paths, variables, None);
        plan.library = library.map(Path::to_path_buf);
        Ok(plan)
    }

    /// These libraries before what the unit preloads already, and these variables.
    fn with(
        root: &Root,
        unit: &Unit,
        paths: &[PathBuf],
        mut variables: Vec<(String, String)>,
        ours: Option<&Library>,
    ) -> Self {
        let mut notes = Vec::new();
        let others: Vec<Assignment> =
            unit.assignments(root).into_iter().filter(|set| !drop_in::is_own(root, &set.file)).collect();
        let before = others.iter().rev().find(|set| set.name == PRELOAD);
        let (replaced, kept) = preloads_before(before, ours);
        if !paths.is_empty() {
            variables.insert(0, (PRELOAD.into(), joined(paths, &kept)));
        }
        if let Some(before) = before.filter(|_| !paths.is_empty()) {
            let file = before.file.display();
            notes.extend(replaced.iter().map(|entry| format!("It takes the place of {entry} ({file}).")));
            if !kept.is_empty() {
                notes.push(format!("LD_PRELOAD={} ({file}) is kept after it.", kept.join(":")));
            }
            notes.extend(kept_allocators(root, &kept, before));
        }
        if ours.is_some() {
            notes.extend(taken_over(&others, &variables));
        }
        let by_file = others.iter().any(|set| {
            let is_ours_too = variables.iter().any(|(name, _)| *name == set.name);
            is_ours_too && (set.is_from_environment_file || comes_later(&set.file))
        });
        if by_file {
            notes.push(format!(
                "An environment file of {} would override Environment=, so the variables are in a separate \
                 environment file.",
                unit.name
            ));
        }
        Plan { is_stand_in: false, library: None, notes, unit: unit.stem().into(), variables, by_file }
    }

    pub fn files(&self, place: &Place) -> Vec<File> {
        drop_in::files(place, &self.unit, &self.variables, self.by_file)
    }
}

/// Why there is no such unit to work on, and which may be meant.
pub fn no_unit(root: &Root, asked: &str, verb: &str, why: &NoUnit) -> String {
    match why {
        NoUnit::Unknown { nearest } if nearest.is_empty() => {
            let hint = match systemd::is_running(root) {
                true => "; 'systemctl list-units --type=service' lists them",
                false if root.is_real() => "; systemd does not run here",
                false => "",
            };
            format!("{asked}: no such service{hint}")
        }
        NoUnit::Unknown { nearest } => {
            format!("{asked}: no such service; did you mean {}?", nearest.join(" or "))
        }
        NoUnit::NeedsInstance { template, instances } => {
            let example = instances.first().cloned().unwrap_or_else(|| format!("{template}@0"));
            let all =
                if instances.len() > 1 { format!(" ({})", instances.join(", ")) } else { String::new() };
            format!(
                "{asked} is a template: name one of its instances{all}, as in 'vcm {verb} {example}', or all of \
                 them: 'vcm {verb} {template}@'"
            )
        }
        NoUnit::NoTemplate { service } => {
            format!("{asked}: {service} is not a template; use 'vcm {verb} {service}'")
        }
        NoUnit::Masked { name } => {
            format!("{name} is masked, so it never starts; 'systemctl unmask {name}' first")
        }
        NoUnit::NotAService { kind } => {
            format!("{asked} is a {kind}; only services have a program to {verb}: name the service")
        }
        NoUnit::BadName => format!("{asked}: not a valid service name"),
    }
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(FAILURE, message)
}

/// Whose malloc the program gets by itself: the first library in the order of the loader that has one. None: the C
/// library's, or the program's own.
pub fn own_allocator(root: &Root, unit: &Unit) -> Option<PathBuf> {
    let path = root.path(root.resolve(unit.program(root)?));
    let Ok(Look::Elf(elf)) = elf::look(&path, Depth::Loading) else { return None };
    let libraries = dependencies::of_in(root, &path, &elf, "").into_iter().filter_map(|library| library.path);
    let has_malloc = |library: &PathBuf| {
        let is_c = library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"));
        !is_c
            && matches!(elf::look(library, Depth::ExportedSymbols), Ok(Look::Elf(elf)) if elf.exports("malloc"))
    };
    let found =
        libraries.filter(|library| !library.to_string_lossy().contains("/ld-linux")).find(has_malloc)?;
    Some(found.canonicalize().unwrap_or(found))
}

/// The program of the unit as the machine names it; refuses what a preload in the unit would not reach.
fn program_of(root: &Root, unit: &Unit) -> Result<PathBuf, Failure> {
    let name = &unit.name;
    let Some(program) = unit.program(root) else {
        return Err(refused(format!("{name} has no ExecStart, so there is nothing to preload into")));
    };
    const WRAPPERS: [&str; 8] = ["bash", "sh", "dash", "podman", "docker", "conmon", "env", "sudo"];
    let file_name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if WRAPPERS.contains(&file_name.as_str()) {
        return Err(refused(format!(
            "{name} starts {}, which starts the daemon in turn, perhaps in a container: a preload in the unit \
             would reach the wrong program. For cephadm and rook see docs/guides/ceph.md, 'Containers'",
            program.display()
        )));
    }
    if file_name == "pg_ctlcluster" {
        return Err(refused(format!(
            "{name} starts pg_ctlcluster, which clears the environment, so a preload in the unit has no effect. A cluster's \
             variables are in its own file: LD_PRELOAD = 'PATH' in /etc/postgresql/VERSION/CLUSTER/environment, then \
             'systemctl restart {}' and 'vcm check {}'",
            unit.stem(),
            unit.stem()
        )));
    }
    if ["true", "false"].contains(&file_name.as_str()) {
        return Err(refused(format!(
            "{name} starts {}, which is not a daemon; name the service of the daemon (postgresql: \
             postgresql@VERSION-CLUSTER)",
            program.display()
        )));
    }
    if let Some((by, path)) = unit.own_root(root) {
        return Err(refused(format!(
            "{name} starts its program in another root ({by}={}); install the library and set LD_PRELOAD there",
            path.display()
        )));
    }
    if !root.path(root.resolve(&program)).is_file() {
        return Err(refused(format!("{name} starts {}, which is not installed", program.display())));
    }
    Ok(program)
}

/// Refuses what the preload would not reach or would break, in the words of `vcm run`; else what is to be
/// noted. The stand-in has been settled before.
fn what_its_file_shows(
    root: &Root,
    unit: &Unit,
    program: &Path,
    library: &Library,
) -> Result<Vec<String>, Failure> {
    // The path that systemd gives a service (systemd.exec(5)).
    const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let assignments = unit.assignments(root);
    let variable = |name| assignments.iter().rev().find(|set| set.name == name).map(|set| set.value.as_str());
    let search_path = variable("PATH").unwrap_or(SEARCH_PATH);
    let start = Start {
        root,
        starter: unit.starter(root),
        library_path: variable("LD_LIBRARY_PATH").unwrap_or_default(),
    };
    let path = command::place(root, program);
    let command = command::follow(root, path, &[], OsStr::new(search_path));
    let findings = findings::of(&command, library, &start);
    if let Some(finding) = findings.iter().find(|finding| finding.weight != Weight::Note || finding.is_idle) {
        return Err(refused(format!("{} is not enabled: {}", unit.name, finding.text())));
    }
    Ok(findings.iter().map(|finding| format!("note: {}", finding.text())).collect())
}

/// The last LD_PRELOAD of the unit names jemalloc's library.
fn preloads_jemalloc(root: &Root, unit: &Unit) -> bool {
    let others = unit.assignments(root).into_iter().filter(|set| !drop_in::is_own(root, &set.file));
    let last = others.rev().find(|set| set.name == PRELOAD);
    last.is_some_and(|set| library::preloads_jemalloc(&set.value))
}

/// The names under which the program is linked with TCMalloc or jemalloc.
fn linked_stand_ins(root: &Root, program: &Path) -> Vec<String> {
    let path = root.path(root.resolve(program));
    let Ok(Look::Elf(elf)) = elf::look(&path, Depth::Loading) else { return Vec::new() };
    let linked = dependencies::of_in(root, &path, &elf, "").into_iter().map(|library| library.name);
    linked.filter(|name| library::has_stand_in(name)).collect()
}

/// A program that has jemalloc runs without its stand-in too, so that is taken only if it is there and nobody chose.
fn choose(
    root: &Root,
    wanted: &Wanted,
    tcmalloc: &[String],
    jemalloc: &[String],
    program: &Path,
) -> Result<Library, Failure> {
    let with_code = |failure: Failure| Failure::new(FAILURE, failure.message);
    if tcmalloc.is_empty() {
        let found = library::find_in(root, wanted.library, wanted.hardened).map_err(with_code)?;
        if wanted.library.is_some() || wanted.hardened {
            return Ok(found);
        }
        let stand_in = found.stand_in_for(jemalloc.iter().map(String::as_str));
        return Ok(stand_in.unwrap_or(found));
    }
    let name = &tcmalloc.join(" and ");
    if wanted.hardened {
        return Err(refused(format!(
            "{} is linked with {name}, and the hardened library does not replace it; omit --hardened",
            program.display()
        )));
    }
    let found = library::find_in(root, wanted.library, false).map_err(with_code)?;
    let found = match wanted.library {
        Some(_) => found,
        None => {
            let names = tcmalloc.iter().map(String::as_str);
            found.stand_in_for(names).ok_or_else(|| not_beside(&found, program, name))?
        }
    };
    if tcmalloc.iter().all(|name| found.stands_in_for(name)) {
        return Ok(found);
    }
    Err(refused(format!(
        "{} is linked with {name}, and {} does not replace it: the program would read an empty heap and let its \
         caches grow without limit. Give vcmalloc's {name}",
        program.display(),
        found.path.display()
    )))
}

fn not_beside(library: &Library, program: &Path, tcmalloc: &str) -> Failure {
    refused(format!(
        "{} is linked with {tcmalloc} and reads its memory use from it. Preloading {} would let its caches grow \
         without limit; vcmalloc's replacement {tcmalloc} is needed and was not found beside the library. \
         Install the package vcmalloc-tcmalloc-compat, build it with 'make build', or give it: vcm enable \
         --library PATH ...",
        program.display(),
        library.path.display()
    ))
}

/// A library inside a root is named as the machine in that root names it.
fn inside(root: &Root, path: &Path, library: &Library) -> Result<PathBuf, Failure> {
    let folder = root.path("/");
    let real_folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let real_path = if path == library.path { library.real_path.clone() } else { path.to_path_buf() };
    let below = path.strip_prefix(&folder).or_else(|_| real_path.strip_prefix(&real_folder));
    below.map(|rest| Path::new("/").join(rest)).map_err(|_| {
        let (library, folder) = (library.path.display(), folder.display());
        refused(format!("{library} is not below {folder}, so that machine does not have it; copy it there"))
    })
}

/// A daemon should not depend on a folder that the next build changes. Cargo marks its own.
fn in_a_build_tree(library: &Path) -> Option<String> {
    let marked = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file();
    let folder = library.ancestors().skip(1).find(marked)?;
    Some(format!(
        "warning: {} is in the build folder {}, which the next build changes and 'make clean' removes; 'sudo \
         make install' installs it in /usr/local/lib.",
        library.display(),
        folder.display()
    ))
}

/// The entries of the unit's own list whose place ours takes, and the rest.
fn preloads_before(before: Option<&Assignment>, ours: Option<&Library>) -> (Vec<String>, Vec<String>) {
    let list = before.map_or("", |set| set.value.as_str());
    let entries = list.split([':', ' ']).filter(|entry| !entry.is_empty()).map(str::to_string);
    entries.partition(|entry| ours.is_some_and(|library| library.replaces(Path::new(entry))))
}

/// Ours first, then what was there.
fn joined(libraries: &[PathBuf], before: &[String]) -> String {
    let others = before.iter().map(PathBuf::from).filter(|entry| !libraries.contains(entry));
    let all: Vec<String> =
        libraries.iter().cloned().chain(others).map(|path| path.display().to_string()).collect();
    all.join(":")
}

/// Allocators that stay loaded behind ours.
fn kept_allocators(root: &Root, kept: &[String], before: &Assignment) -> Vec<String> {
    let exports_malloc = |path: &str| {
        let look = elf::look(&root.path(root.resolve(path)), Depth::ExportedSymbols);
        matches!(look, Ok(Look::Elf(elf)) if elf.exports("malloc"))
    };
    let entries = kept.iter().filter(|entry| entry.starts_with('/') && exports_malloc(entry));
    entries
        .map(|entry| {
            let file = before.file.display();
            format!(
                "warning: {entry} is also an allocator and stays loaded without use. Remove it from {file}."
            )
        })
        .collect()
}

/// TCMalloc's bound in the unit's files, which ours reads as its own where nobody gives it one.
fn taken_over(others: &[Assignment], variables: &[(String, String)]) -> Option<String> {
    let id = OptionId::cache_limit;
    let alias = spec(id).alias?;
    let own = settings::variable(spec(id).name);
    let is_given = |name: &str| name == own;
    if variables.iter().any(|(name, _)| is_given(name)) || others.iter().any(|set| is_given(&set.name)) {
        return None;
    }
    let set = others.iter().rev().find(|set| set.name == alias)?;
    let options = Options::new();
    // A value that is refused changes nothing.
    options.set_foreign(alias.as_bytes(), set.value.as_bytes())?.ok()?;
    let value = settings::value(spec(id).kind, options.get(id));
    Some(format!(
        "{alias}={} ({}) becomes vcmalloc's cache_limit, {value}; to set it separately: --option cache_limit={}",
        set.value,
        set.file.display(),
        spec(id).default
    ))
}

/// A drop-in whose name is behind ours is read after it.
fn comes_later(file: &Path) -> bool {
    let is_drop_in = file.parent().is_some_and(|folder| folder.extension().is_some_and(|end| end == "d"));
    is_drop_in && file.file_name().is_some_and(|name| name.to_string_lossy().as_ref() > drop_in::NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcmallocs_bound_in_the_units_files_is_told_as_what_it_becomes() {
        let set = |name: &str, value: &str| Assignment {
            name: name.into(),
            value: value.into(),
            file: "/etc/default/ceph".into(),
            is_from_environment_file: true,
        };
        let bound = set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "134217728");
        let told = taken_over(std::slice::from_ref(&bound), &[]).unwrap();
        assert!(
            told.contains("134217728 (/etc/default/ceph) becomes vcmalloc's cache_limit, 128M;"),
            "{told}"
        );
        let given = [("VCM_CACHE_LIMIT".to_string(), "64M".to_string())];
        assert_eq!(taken_over(std::slice::from_ref(&bound), &given), None);
        assert_eq!(taken_over(&[bound, set("VCM_CACHE_LIMIT", "64M")], &[]), None);
        assert_eq!(taken_over(&[set("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "much")], &[]), None);
    }

    #[test]
    fn a_library_in_a_build_folder_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("target/release/libvcmalloc.so");
        assert_eq!(in_a_build_tree(&library), None);
        std::fs::create_dir_all(folder.path().join("target")).unwrap();
        std::fs::write(folder.path().join("target/CACHEDIR.TAG"), "").unwrap();
        assert!(in_a_build_tree(&library).is_some_and(|warning| warning.contains("make install")));
    }
}
