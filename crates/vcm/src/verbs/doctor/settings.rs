//! The settings of the allocator that a process runs on, each with where it comes from.

use super::survey::Daemon;
use crate::automatic::Automatic;
use crate::config_file::ConfigFile;
use crate::settings::{Effective, NOT_KNOWN, UNLESS_SET};
use serde::Serialize;
use std::path::Path;
use vcm_inspect::allocator::Kind;
use vcm_inspect::root::Root;
use vcmalloc_core::options::{OptionId, Origin, spec};

/// The names of the fields are a promise to readers of the JSON.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct AllocatorSetting {
    pub name: String,
    /// `not known` where it depends on an environment that cannot be read.
    pub value: String,
    /// What `auto` is for this process.
    pub comes_to: Option<String>,
    pub origin: String,
}

pub const TCMALLOC_BOUND: &str = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";
/// What gperftools caches for all threads together unless it is told otherwise.
pub const TCMALLOC_DEFAULT_BOUND: u64 = 32 << 20;

/// The settings, and what the library would complain about.
pub fn of(root: &Root, daemon: &Daemon) -> (Vec<AllocatorSetting>, Vec<String>) {
    match daemon.allocator.kind() {
        Some(kind) if kind.is_ours() => ours(root, daemon),
        Some(kind) if kind.is_gperftools() => {
            let mut settings = by_prefix(root, daemon, &["TCMALLOC_"]);
            if !settings.iter().any(|set| set.name == TCMALLOC_BOUND) {
                settings.push(AllocatorSetting {
                    name: TCMALLOC_BOUND.into(),
                    value: TCMALLOC_DEFAULT_BOUND.to_string(),
                    comes_to: None,
                    origin: "default".into(),
                });
            }
            (settings, Vec::new())
        }
        Some(Kind::Jemalloc) => {
            let mut settings = by_prefix(root, daemon, &["MALLOC_CONF", "_RJEM_MALLOC_CONF"]);
            if let Ok(target) =
                std::fs::read_link(daemon.process.as_seen_by_it(Path::new("/etc/malloc.conf")))
            {
                settings.push(AllocatorSetting {
                    name: "malloc.conf".into(),
                    value: target.display().to_string(),
                    comes_to: None,
                    origin: "/etc/malloc.conf".into(),
                });
            }
            (settings, Vec::new())
        }
        Some(Kind::Mimalloc) => (by_prefix(root, daemon, &["MIMALLOC_"]), Vec::new()),
        Some(Kind::Glibc) => (by_prefix(root, daemon, &["MALLOC_", "GLIBC_TUNABLES"]), Vec::new()),
        _ => (Vec::new(), Vec::new()),
    }
}

fn by_prefix(root: &Root, daemon: &Daemon, prefixes: &[&str]) -> Vec<AllocatorSetting> {
    let environment = daemon.environment.iter().flatten();
    let known = environment.map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()));
    known
        .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| AllocatorSetting {
            origin: origin_of_variable(root, daemon, &name, &value),
            name: name.into_owned(),
            value: value.into_owned(),
            comes_to: None,
        })
        .collect()
}

/// The file of its unit that gave the process this variable; else only that it came with the environment.
fn origin_of_variable(root: &Root, daemon: &Daemon, name: &str, value: &str) -> String {
    let assignments = daemon.unit.as_ref().map(|unit| unit.assignments(root)).unwrap_or_default();
    let from = assignments.into_iter().rev().find(|set| set.name == name && set.value == value);
    from.map_or("environment".into(), |set| format!("environment, by {}", set.file.display()))
}

fn not_known(name: &str) -> AllocatorSetting {
    let origin = "its environment cannot be read".to_string();
    AllocatorSetting { name: name.into(), value: NOT_KNOWN.into(), comes_to: None, origin }
}

fn ours(root: &Root, daemon: &Daemon) -> (Vec<AllocatorSetting>, Vec<String>) {
    let is_known = daemon.environment.is_some() || daemon.process.was_privileged();
    let environment = daemon.environment.clone().unwrap_or_default();
    let file = ConfigFile::of(&environment).path;
    let seen = ConfigFile::of_process(&daemon.process, &environment);
    let start = daemon.process.name_at_start().ok();
    let name = start.as_ref().map(|start| start.name.clone()).unwrap_or_default();
    let renamed = start.filter(|start| start.now.is_some()).map_or(String::new(), |start| {
        format!(" (its name at the start: {})", String::from_utf8_lossy(&start.name))
    });
    let effective = Effective::of_process(&daemon.process, &environment, seen, &name);
    let automatic = Automatic::of(&daemon.process);
    let settings = OptionId::ALL
        .into_iter()
        .map(|id| {
            if !is_known && effective.options.origin(id) == Origin::Default {
                return not_known(spec(id).name);
            }
            let variable = crate::settings::variable(spec(id).name);
            let raw = daemon.variable(&variable).map(|raw| raw.to_string_lossy().into_owned());
            let origin = match (effective.options.origin(id), raw) {
                (Origin::Environment, Some(raw)) => origin_of_variable(root, daemon, &variable, &raw),
                (origin @ (Origin::File | Origin::FileSection), _) => {
                    let unless = if is_known { "" } else { UNLESS_SET };
                    let renamed = if origin == Origin::FileSection { renamed.as_str() } else { "" };
                    format!("{}{renamed}, {}{unless}", origin.name(), file.display())
                }
                (origin, _) => origin.name().to_string(),
            };
            AllocatorSetting {
                name: spec(id).name.into(),
                value: effective.value(id),
                comes_to: automatic.of_option(&effective, id),
                origin,
            }
        })
        .collect();
    (settings, effective.warnings)
}
