//! The settings of the allocator that a process runs on, each with where it comes from.

use super::jemalloc::{self, Source};
use crate::automatic::Automatic;
use crate::config_file::ConfigFile;
use crate::settings::{Effective, NOT_KNOWN, UNLESS_SET};
use serde::Serialize;
use std::ffi::OsString;
use vcm_foreign::Shown;
use vcm_inspect::allocator::{Answer, Kind};
use vcm_inspect::process::Process;
use vcm_inspect::root::Root;
use vcm_inspect::systemd::Unit;
use vcmalloc_core::options::{OptionId, Origin, spec};

/// The names of the fields are a promise to readers of the JSON.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct AllocatorSetting {
    pub name: String,
    /// `not known` where it depends on an environment that cannot be read.
    pub value: String,
    /// The value of `auto` for this process.
    pub comes_to: Option<String>,
    pub origin: String,
    /// Of ours.
    #[serde(skip)]
    pub own: Option<Own>,
}

/// An option of ours, and its value where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    pub id: OptionId,
    pub value: Option<u64>,
}

impl AllocatorSetting {
    fn of_another(name: impl Into<String>, value: impl Into<String>, origin: impl Into<String>) -> Self {
        let (name, value, origin) = (name.into(), value.into(), origin.into());
        AllocatorSetting { name, value, comes_to: None, origin, own: None }
    }
}

/// The daemon as its settings depend on it.
#[derive(Clone, Copy)]
pub struct Started<'a> {
    pub answer: &'a Answer,
    pub process: &'a Process,
    pub environment: Option<&'a [(OsString, OsString)]>,
    pub unit: Option<&'a Unit>,
}

pub const TCMALLOC_BOUND: &str = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";
/// The bytes that gperftools caches for all threads together unless it is told otherwise.
pub const TCMALLOC_DEFAULT_BOUND: u64 = 32 << 20;

/// The settings, and what the library would complain about.
pub fn of(root: &Root, daemon: Started) -> (Vec<AllocatorSetting>, Vec<String>) {
    let (mut settings, warnings) = of_serving(root, daemon);
    for source in jemalloc::sources(daemon.process, daemon.answer, daemon.environment) {
        let Source { name, text, origin } = source;
        let origin = origin.unwrap_or_else(|| origin_of_variable(root, daemon, &name, &text));
        settings.retain(|set| set.name != name);
        settings.push(AllocatorSetting::of_another(name, text, origin));
    }
    (settings, warnings)
}

fn of_serving(root: &Root, daemon: Started) -> (Vec<AllocatorSetting>, Vec<String>) {
    match daemon.answer.kind() {
        Some(kind) if kind.is_ours() => ours(root, daemon),
        Some(kind) if kind.is_gperftools() => {
            let mut settings = by_prefix(root, daemon, &["TCMALLOC_"]);
            if !settings.iter().any(|set| set.name == TCMALLOC_BOUND) {
                let bound = TCMALLOC_DEFAULT_BOUND.to_string();
                settings.push(AllocatorSetting::of_another(TCMALLOC_BOUND, bound, "default"));
            }
            (settings, Vec::new())
        }
        Some(Kind::Mimalloc) => (by_prefix(root, daemon, &["MIMALLOC_"]), Vec::new()),
        Some(Kind::Glibc) => (by_prefix(root, daemon, &["MALLOC_", "GLIBC_TUNABLES"]), Vec::new()),
        _ => (Vec::new(), Vec::new()),
    }
}

fn by_prefix(root: &Root, daemon: Started, prefixes: &[&str]) -> Vec<AllocatorSetting> {
    let environment = daemon.environment.unwrap_or_default().iter();
    let known = environment.map(|(name, value)| (name.shown().printed(), value.shown().printed()));
    known
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| {
            let origin = origin_of_variable(root, daemon, &name, &value);
            AllocatorSetting::of_another(name, value, origin)
        })
        .collect()
}

/// The file of its unit that gave the process this variable; else only that it came with the environment.
fn origin_of_variable(root: &Root, daemon: Started, name: &str, value: &str) -> String {
    let assignments = daemon.unit.map(|unit| unit.assignments(root)).unwrap_or_default();
    let from = assignments.into_iter().rev().find(|set| set.name == name && set.value == value);
    from.map_or("environment".into(), |set| format!("environment, by {}", set.file.shown()))
}

fn not_known(id: OptionId) -> AllocatorSetting {
    let setting = AllocatorSetting::of_another(spec(id).name, NOT_KNOWN, "its environment cannot be read");
    AllocatorSetting { own: Some(Own { id, value: None }), ..setting }
}

fn ours(root: &Root, daemon: Started) -> (Vec<AllocatorSetting>, Vec<String>) {
    let environment = daemon.environment.unwrap_or_default();
    let file = ConfigFile::of(environment).path;
    let seen = ConfigFile::of_process(daemon.process, environment);
    let start = daemon.process.name_at_start().ok();
    let name = start.as_ref().map(|start| start.name.clone()).unwrap_or_default();
    let renamed = start
        .filter(|start| start.now.is_some())
        .map_or(String::new(), |start| format!(" (its name at the start: {})", start.name));
    let mut effective = Effective::of_process(daemon.process, environment, seen, name.as_bytes());
    let in_effect = effective.take_from(daemon.process);
    let is_known = in_effect || daemon.environment.is_some() || daemon.process.was_privileged();
    let automatic =
        if in_effect { Automatic::in_effect(daemon.process) } else { Automatic::of(daemon.process) };
    let settings = OptionId::ALL
        .into_iter()
        .map(|id| {
            if !is_known && effective.options.origin(id) == Origin::Default {
                return not_known(id);
            }
            let variable = crate::settings::variable(spec(id).name);
            let raw = environment.iter().find(|(name, _)| *name == *variable);
            let raw = raw.map(|(_, raw)| raw.shown().printed());
            let origin = match (effective.options.origin(id), raw) {
                (Origin::Environment, Some(raw)) => origin_of_variable(root, daemon, &variable, &raw),
                (origin @ (Origin::File | Origin::FileSection), _) => {
                    let unless = if is_known { "" } else { UNLESS_SET };
                    let renamed = if origin == Origin::FileSection { renamed.as_str() } else { "" };
                    format!("{}{renamed}, {}{unless}", origin.name(), file.shown())
                }
                (origin, _) => origin.name().to_string(),
            };
            AllocatorSetting {
                name: spec(id).name.into(),
                value: effective.value(id),
                comes_to: automatic.of_option(&effective, id),
                origin,
                own: Some(Own { id, value: Some(effective.options.get(id)) }),
            }
        })
        .collect();
    (settings, effective.warnings)
}
