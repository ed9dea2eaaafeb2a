//! The effect of a unit's sandbox on a preload: which files it shows, which variables it keeps, which system calls it lets pass.
//!
//! Owns the refusals: each says what was seen, why the preload would have no effect or do harm, and what to do. Nothing is
//! written where one holds.

use crate::settings;
use std::path::{Path, PathBuf};
use vcm_front::say::{FAILURE, Failure};
use vcm_inspect::root::Root;
use vcm_inspect::systemd::Unit;
use vcm_inspect::systemd::filter::{Answer, Filter};
use vcm_inspect::systemd::sandbox::Kept;

/// Asked when the library is loaded, or needed to serve the program (docs/reference/system-calls.md).
const NEEDED: [&str; 18] = [
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "mremap",
    "futex",
    "clock_gettime",
    "openat",
    "read",
    "close",
    "prctl",
    "sysinfo",
    "sched_getaffinity",
    "getpid",
    "gettid",
    "prlimit64",
    "rt_sigaction",
    "getrandom",
];
/// Asked only without `system_calls=few`.
const OFTEN: [&str; 9] = [
    "write",
    "pread64",
    "close_range",
    "fstat",
    "geteuid",
    "ftruncate",
    "newfstatat",
    "renameat2",
    "rt_sigprocmask",
];
/// Asked for the caches of virtual CPUs.
const SEQUENCES: [&str; 2] = ["membarrier", "rseq"];
/// Without these answers memory cannot be had, or not be given back.
const MEMORY: [&str; 4] = ["mmap", "munmap", "mprotect", "madvise"];

/// The options that make the library run in the unit's sandbox.
#[derive(Default)]
pub struct Fitted {
    pub variables: Vec<(String, String)>,
    pub notes: Vec<String>,
}

/// Refuses a unit that starts what these libraries would not be loaded into.
pub fn check(root: &Root, unit: &Unit, libraries: &[PathBuf], variables: &[String]) -> Result<(), Failure> {
    let name = &unit.name;
    let names: Vec<&str> =
        std::iter::once("LD_PRELOAD").chain(variables.iter().map(String::as_str)).collect();
    if let Some(unset) = unit.unset(root, &names).first() {
        return Err(refused(format!(
            "{name} removes {unset} from the environment (UnsetEnvironment=), so it would have no effect; remove \
             it from that setting first"
        )));
    }
    libraries.iter().try_for_each(|library| check_visible(root, unit, library))?;
    libraries.iter().try_for_each(|library| check_profile(root, unit, library))
}

/// The unit's sandbox must show the library, and let it be executed.
fn check_visible(root: &Root, unit: &Unit, library: &Path) -> Result<(), Failure> {
    let hidden = |folders: &[&str], by: &'static str| {
        let is_in = folders.iter().any(|folder| library.starts_with(folder)) && unit.has_set(root, by);
        is_in.then(|| Kept { by: format!("{by}="), is_shown: false })
    };
    let kept = hidden(&["/home", "/root", "/run/user"], "ProtectHome")
        .or_else(|| hidden(&["/tmp", "/var/tmp"], "PrivateTmp"))
        .or_else(|| unit.keeps_from(root, library));
    let Some(Kept { by, is_shown }) = kept else { return Ok(()) };
    let (shown, name, stem) = (library.display(), &unit.name, unit.stem());
    let file = library.file_name().unwrap_or_default().to_string_lossy();
    if is_shown {
        return Err(refused(format!(
            "{name} may execute nothing in {shown} ({by}), so the loader would ignore the library; install the \
             packages, which put it below /usr/lib, or give a library in an executable folder: vcm enable \
             --library PATH {stem}"
        )));
    }
    // If everybody found it, the stand-in would take TCMalloc's or jemalloc's place in every program.
    let folder = if file.starts_with(vcm_front::library::STAND_IN_PREFIX) {
        "/usr/local/lib/vcmalloc"
    } else if vcm_front::library::has_stand_in(&file) {
        "/usr/local/lib/vcmalloc/jemalloc"
    } else {
        "/usr/local/lib"
    };
    Err(refused(format!(
        "{shown} is hidden from {name} by its {by}; copy it to {folder} and give that path: vcm enable --library \
         {folder}/{file} {stem}"
    )))
}

/// AppArmor's abstractions let every program map libraries below /usr/lib, and none elsewhere.
fn check_profile(root: &Root, unit: &Unit, library: &Path) -> Result<(), Failure> {
    let real = root.resolve(library);
    if real.starts_with("/usr/lib") || real.starts_with("/lib") {
        return Ok(());
    }
    let Some(profile) = profile(root, unit) else { return Ok(()) };
    let text = root.text(&profile).unwrap_or_default() + &root.text(local(&profile)).unwrap_or_default();
    if text.contains(&*library.to_string_lossy()) || text.contains(&*real.to_string_lossy()) {
        return Ok(());
    }
    Err(refused(format!(
        "{} runs under the AppArmor profile {}, which allows libraries below /usr/lib only, so the loader would \
         ignore {}. Use the package's library, or add the line '{} mr,' to {} and reload it ('apparmor_parser -r \
         {}')",
        unit.name,
        profile.display(),
        library.display(),
        real.display(),
        local(&profile).display(),
        profile.display()
    )))
}

/// The file of the profile that holds for what the unit starts, where AppArmor is switched on.
fn profile(root: &Root, unit: &Unit) -> Option<PathBuf> {
    const FOLDER: &str = "/etc/apparmor.d";
    let enabled = root.text("/sys/module/apparmor/parameters/enabled");
    if root.is_real() && enabled.is_none_or(|text| text.trim() != "Y") {
        return None;
    }
    let program = unit.program(root)?;
    let asked = unit.service_setting(root, "AppArmorProfile");
    if asked.as_deref().is_some_and(|name| name.trim_start_matches('-') == "unconfined") {
        return None;
    }
    let names = [Some(program.clone()), Some(root.resolve(&program)), asked.map(PathBuf::from)];
    let names = names
        .into_iter()
        .flatten()
        .map(|path| path.to_string_lossy().trim_start_matches(['/', '-']).replace('/', "."));
    let paths = names.map(|name| Path::new(FOLDER).join(name));
    let is_off = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        root.path(Path::new(FOLDER).join("disable").join(name)).symlink_metadata().is_ok()
    };
    paths.into_iter().find(|path| root.path(path).is_file() && !is_off(path))
}

/// The file of an administrator's own lines of a profile.
fn local(profile: &Path) -> PathBuf {
    let name = profile.file_name().unwrap_or_default();
    profile.with_file_name("local").join(name)
}

/// The options with which vcmalloc lives under the unit's filter; refuses one that would end the service.
pub fn fit(root: &Root, unit: &Unit, given: &[(String, String)]) -> Result<Fitted, Failure> {
    let mut fitted = Fitted::default();
    let Some(filter) = Filter::of(root, unit) else { return Ok(fitted) };
    let (name, stem) = (&unit.name, unit.stem());
    let ending = filter.ending(&NEEDED);
    if !ending.is_empty() {
        let calls = ending.join(" ");
        return Err(refused(format!(
            "{name} would be killed: its SystemCallFilter= kills it for {calls}, which vcmalloc calls. Allow it \
             first, in a drop-in ('systemctl edit {stem}'): [Service] SystemCallFilter={calls}"
        )));
    }
    let failing: Vec<&str> = MEMORY.into_iter().filter(|call| filter.answer(call) == Answer::Fails).collect();
    if !failing.is_empty() {
        return Err(refused(format!(
            "{name} may not call {} (SystemCallFilter=), so vcmalloc could not get or release memory; allow it \
             first",
            failing.join(" ")
        )));
    }
    for (calls, option, value, effect) in [
        (
            &OFTEN[..],
            "system_calls",
            "few",
            "it does not read the limits of its control group and uses no new huge pages",
        ),
        (&SEQUENCES[..], "front", "locked", "caches use locks"),
    ] {
        let ending = filter.ending(calls);
        let variable = settings::variable(option);
        if ending.is_empty() || given.iter().any(|(name, _)| *name == variable) {
            continue;
        }
        fitted.notes.push(format!(
            "Its SystemCallFilter= would kill it for {}, so {option}={value} is set: {effect}.",
            ending.join(", ")
        ));
        fitted.variables.push((variable, value.into()));
    }
    Ok(fitted)
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(FAILURE, message)
}
