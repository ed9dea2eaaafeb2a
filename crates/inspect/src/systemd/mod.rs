//! systemd's unit files: finding a unit, its drop-ins, and the environment that they give a service.
//!
//! ```text
//! mod     names, aliases, templates, the order of files
//! sandbox which files a unit shows to what it starts
//! filter  which system calls it lets pass
//! file    what a unit file and an environment file say
//! ```
//!
//! Follows systemd.unit(5) and systemd.exec(5) as far as the environment and the command need it, by reading
//! files: it works in a folder and without systemd running.

pub mod file;
pub mod filter;
pub mod sandbox;

use super::privileges::Starter;
use super::root::Root;
use file::Assignment;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use strsim::levenshtein;

/// Strongest first.
const FOLDERS: [&str; 6] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
pub const ETC: &str = FOLDERS[0];
const SUFFIX: &str = ".service";
/// Endings of units that are no services (systemd.unit(5)).
const OTHER_KINDS: [&str; 10] =
    ["socket", "timer", "target", "mount", "path", "slice", "scope", "device", "swap", "automount"];

/// A service, and the files that make it, weakest first: the unit file, then the drop-ins in their order.
#[derive(Debug)]
pub struct Unit {
    /// With `.service`; the name behind an alias.
    pub name: String,
    /// The alias that was asked for.
    pub asked_as: Option<String>,
    pub file: PathBuf,
    pub drop_ins: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum NoUnit {
    /// No such unit; the names that come nearest.
    Unknown { nearest: Vec<String> },
    /// A template was named as if it were a service; its instances that are enabled.
    NeedsInstance { template: String, instances: Vec<String> },
    /// An instance of something that is no template.
    NoTemplate { service: String },
    /// `systemctl mask`.
    Masked { name: String },
    /// A unit of another kind: its ending.
    NotAService { kind: String },
    /// A name that cannot be one.
    BadName,
}

/// Whether systemd runs this machine (sd_booted(3)).
pub fn is_running(root: &Root) -> bool {
    root.path("/run/systemd/system").is_dir()
}

/// Finds a service by its name, with or without `.service`. `name@` is the template itself.
pub fn find(root: &Root, asked: &str) -> Result<Unit, NoUnit> {
    let name = asked.strip_suffix(SUFFIX).unwrap_or(asked);
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if name.is_empty() || name.starts_with('@') || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(NoUnit::BadName);
    }
    if let Some((_, kind)) = name.rsplit_once('.').filter(|(_, kind)| OTHER_KINDS.contains(kind)) {
        return Err(NoUnit::NotAService { kind: kind.into() });
    }
    let file_name = format!("{name}{SUFFIX}");
    let template = template_of(name).map(|template| format!("{template}@{SUFFIX}"));
    let found = fragment(root, &file_name).or_else(|| fragment(root, template.as_deref()?));
    let Some(file) = found else { return Err(missing(root, name)) };
    let real = root.resolve(&file);
    if real == Path::new("/dev/null") {
        return Err(NoUnit::Masked { name: file_name });
    }
    let own_name = canonical(name, &real);
    let alias = (own_name != file_name).then(|| file_name.clone());
    let mut names = vec![own_name.clone()];
    names.extend(alias.clone());
    Ok(Unit { drop_ins: drop_ins(root, &names), name: own_name, asked_as: alias, file: real })
}

/// `ceph-osd` of `ceph-osd@3`; none for a service that is no instance.
fn template_of(name: &str) -> Option<&str> {
    name.split_once('@').map(|(template, _)| template)
}

/// The unit's own name: that of the file behind the links, with the instance of the name that was asked for.
fn canonical(name: &str, real: &Path) -> String {
    let file = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match (file.strip_suffix(SUFFIX), name.split_once('@')) {
        (Some(stem), Some((_, instance))) if stem.ends_with('@') => format!("{stem}{instance}{SUFFIX}"),
        (Some(_), _) => file,
        (None, _) => format!("{name}{SUFFIX}"),
    }
}

fn fragment(root: &Root, file_name: &str) -> Option<PathBuf> {
    let exists = |path: &PathBuf| root.path(path).symlink_metadata().is_ok_and(|file| !file.is_dir());
    FOLDERS.iter().map(|folder| Path::new(folder).join(file_name)).find(exists)
}

/// All services and templates that have a file, without `.service`.
pub fn known(root: &Root) -> Vec<String> {
    let mut names: Vec<String> =
        FOLDERS.iter().flat_map(|folder| names_in(root, Path::new(folder))).collect();
    names.sort();
    names.dedup();
    names
}

fn names_in(root: &Root, folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.path(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(SUFFIX).map(str::to_string)).collect()
}

/// Instances of a template that are enabled, by the links in the folders of targets.
fn instances(root: &Root, template: &str) -> Vec<String> {
    let entries = fs::read_dir(root.path(ETC)).into_iter().flatten().flatten();
    let folders = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let wants = folders.filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
    let mut found: Vec<String> = wants
        .flat_map(|folder| names_in(root, &Path::new(ETC).join(folder)))
        .filter(|name| template_of(name) == Some(template) && !name.ends_with('@'))
        .collect();
    found.sort();
    found
}

fn missing(root: &Root, name: &str) -> NoUnit {
    let known = known(root);
    if known.iter().any(|unit| *unit == format!("{name}@")) {
        return NoUnit::NeedsInstance { template: name.into(), instances: instances(root, name) };
    }
    if let Some(service) = template_of(name).filter(|stem| known.iter().any(|unit| unit == stem)) {
        return NoUnit::NoTemplate { service: service.into() };
    }
    // Daemons' own names lead to their units: osd.3 is ceph-osd@3.
    let (stem, instance) = name.split_once(['@', '.']).unwrap_or((name, ""));
    let mut scored: Vec<(usize, String)> = known
        .iter()
        .map(|unit| {
            let plain = unit.trim_end_matches('@');
            let distance = levenshtein(plain, stem).min(levenshtein(plain.trim_start_matches("ceph-"), stem));
            let suggestion = if unit.ends_with('@') { format!("{unit}{instance}") } else { unit.clone() };
            (distance, suggestion)
        })
        // Of a name of a few letters two others make another word: ssh is not osd.
        .filter(|(distance, _)| *distance <= if stem.len() < 5 { 1 } else { 2.max(stem.len() / 3) })
        .collect();
    scored.sort();
    scored.truncate(3);
    NoUnit::Unknown { nearest: scored.into_iter().map(|(_, name)| name).collect() }
}

/// The drop-ins of a unit in the order in which they are read: by file name, whatever folder they are in. Of
/// two with one name the stronger folder's is read.
fn drop_ins(root: &Root, names: &[String]) -> Vec<PathBuf> {
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    for name in names.iter().flat_map(|name| with_wider_names(name)) {
        for folder in FOLDERS {
            let folder = Path::new(folder).join(format!("{name}.d"));
            let entries = fs::read_dir(root.path(&folder)).into_iter().flatten().flatten();
            let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
            for file in files.filter(|file| file.ends_with(".conf")) {
                by_name.entry(file.clone()).or_insert_with(|| folder.join(file));
            }
        }
    }
    by_name.into_values().collect()
}

/// `a-b@1.service`: itself, its template, `a-.service` and `service`, whose drop-ins all hold for it.
fn with_wider_names(name: &str) -> Vec<String> {
    let stem = name.strip_suffix(SUFFIX).unwrap_or(name);
    let mut names = vec![name.to_string()];
    if let Some((template, instance)) = stem.split_once('@')
        && !instance.is_empty()
    {
        names.push(format!("{template}@{SUFFIX}"));
    }
    let plain = template_of(stem).unwrap_or(stem);
    let dashes = plain.match_indices('-').rev().map(|(at, _)| at);
    names.extend(dashes.filter_map(|at| Some(format!("{}{SUFFIX}", plain.get(..=at)?))));
    names.push("service".into());
    names
}

impl Unit {
    /// The unit file and the drop-ins, weakest first.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        std::iter::once(&self.file).chain(&self.drop_ins)
    }

    pub fn stem(&self) -> &str {
        self.name.strip_suffix(SUFFIX).unwrap_or(&self.name)
    }

    /// The variables that the service is started with, weakest first: what the files set, then what the
    /// environment files set, which systemd lets win.
    pub fn assignments(&self, root: &Root) -> Vec<Assignment> {
        file::environment_of(root, self.files())
    }

    /// The last value of a setting of the `[Service]` section.
    pub fn service_setting(&self, root: &Root, name: &str) -> Option<String> {
        file::settings_of(root, self.files(), "Service", name).pop()
    }

    /// All its values, in their order; an empty one has taken those before it away.
    pub fn service_settings(&self, root: &Root, name: &str) -> Vec<String> {
        file::settings_of(root, self.files(), "Service", name)
    }

    /// Whether a setting of the `[Service]` section is there and not switched off.
    pub fn has_set(&self, root: &Root, name: &str) -> bool {
        let value = self.service_setting(root, name).unwrap_or_default().to_ascii_lowercase();
        !matches!(value.as_str(), "" | "no" | "false" | "0" | "off" | "n" | "f")
    }

    /// The starter of its program. Settings that imply NoNewPrivileges= are not looked for.
    pub fn starter(&self, root: &Root) -> Starter {
        let user = self.service_setting(root, "User").filter(|user| !user.is_empty());
        let is_root = user.is_none() && !self.has_set(root, "DynamicUser");
        let (user, own_group) = match user {
            Some(name) => id_in(root, "/etc/passwd", &name),
            None => (is_root.then_some(0), is_root.then_some(0)),
        };
        let group = self.service_setting(root, "Group").filter(|group| !group.is_empty());
        let group = group.map_or(own_group, |name| id_in(root, "/etc/group", &name).0);
        Starter { user, group, gains_nothing: self.has_set(root, "NoNewPrivileges") }
    }

    /// The program that the service starts: of a shell's line the one that it becomes, with the same environment (MariaDB's in
    /// Debian 13).
    pub fn program(&self, root: &Root) -> Option<PathBuf> {
        const SHELLS: [&str; 5] = ["/bin/sh", "/usr/bin/sh", "/bin/bash", "/usr/bin/bash", "/bin/dash"];
        let line = self.service_setting(root, "ExecStart")?;
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?.trim_start_matches(['-', '@', ':', '+', '!']);
        let is_line = SHELLS.contains(&first) && words.next() == Some("-c");
        let behind = line
            .rsplit_once("exec ")
            .map(|(_, behind)| behind.split_ascii_whitespace().next().unwrap_or_default());
        let becomes =
            behind.filter(|word| is_line && word.starts_with('/') && line.matches("exec ").count() == 1);
        Some(PathBuf::from(becomes.unwrap_or(first).trim_end_matches(['"', '\'', ';'])))
    }
}

/// The third and the fourth field of a name's or a number's line: a user's and his group's, or a group's.
fn id_in(root: &Root, file: &str, name: &str) -> (Option<u32>, Option<u32>) {
    let text = root.text(file).unwrap_or_default();
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let number = |fields: &[&str], at: usize| fields.get(at).and_then(|id| id.parse::<u32>().ok());
    let line =
        fields.into_iter().find(|fields| fields.first() == Some(&name) || fields.get(2) == Some(&name));
    line.map_or((name.parse().ok(), None), |fields| (number(&fields, 2), number(&fields, 3)))
}

#[cfg(test)]
mod tests;
