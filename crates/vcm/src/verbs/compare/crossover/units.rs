//! The units that take part: names with braces, and what each must be.

use super::manager::Manager;
use crate::drop_in::{self, Found, Place, foreign};
use crate::unit_plan::no_unit;
use nix::unistd::{AccessFlags, access};
use std::path::{Path, PathBuf};
use vcm_front::say::{FAILURE, Failure, NOT_UNDERSTOOD};
use vcm_inspect::daemon::Role;
use vcm_inspect::root::Root;
use vcm_inspect::systemd::{self, Unit};

/// More are a mistake in a pattern.
const MOST: usize = 1000;

/// A service, checked.
pub struct Service {
    pub unit: Unit,
    pub place: Place,
    pub role: Role,
    /// The files of `vcm enable` that it has.
    pub before: Vec<drop_in::File>,
}

impl Service {
    pub fn name(&self) -> &str {
        self.unit.stem()
    }

    /// `3` of `ceph-osd@3`.
    pub fn instance(&self) -> &str {
        instance(self.name())
    }
}

pub fn instance(name: &str) -> &str {
    name.split_once('@').map_or("", |(_, instance)| instance)
}

pub fn role(root: &Root, unit: &Unit) -> Role {
    let program = unit.program(root).unwrap_or_default();
    Role::of_program(&program.file_name().unwrap_or_default().to_string_lossy())
}

/// Every name that the patterns stand for, each once.
pub fn names(patterns: &[String]) -> Result<Vec<String>, Failure> {
    let wrong = |reason: String| Failure::new(NOT_UNDERSTOOD, format!("--systemd {reason}"));
    let mut names: Vec<String> = Vec::new();
    for pattern in patterns.iter().flat_map(|pattern| apart(pattern)) {
        let pattern = pattern.trim();
        if pattern.is_empty() {
            continue;
        }
        for name in expanded(pattern).map_err(|reason| wrong(format!("{pattern}: {reason}")))? {
            let name = name.strip_suffix(".service").unwrap_or(&name).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return Err(wrong("names no unit".to_owned()));
    }
    Ok(names)
}

/// The parts of a list; commas inside of braces are the braces'.
fn apart(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for letter in list.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' | ' ' if depth == 0 => parts.push(String::new()),
            letter => parts.last_mut().into_iter().for_each(|part| part.push(letter)),
        }
    }
    parts
}

/// As a shell does it: `a@{1,3..5}` is a@1, a@3, a@4 and a@5.
fn expanded(pattern: &str) -> Result<Vec<String>, String> {
    let Some((head, rest)) = pattern.split_once('{') else {
        return if pattern.contains('}') {
            Err("unmatched closing brace".into())
        } else {
            Ok(vec![pattern.to_owned()])
        };
    };
    let (inner, tail) = rest.split_once('}').ok_or("unmatched opening brace")?;
    if inner.contains('{') {
        return Err("nested braces are not supported".to_owned());
    }
    let mut words = Vec::new();
    for word in inner.split(',') {
        match word.split_once("..") {
            Some((from, to)) => {
                let number = |text: &str| {
                    text.parse::<u32>().map_err(|_| format!("'{word}' is not a range of numbers"))
                };
                let (from, to) = (number(from)?, number(to)?);
                if from > to || (to - from) as usize >= MOST {
                    return Err(format!("'{word}' is not an ascending range of at most {MOST}"));
                }
                words.extend((from..=to).map(|number| number.to_string()));
            }
            None if word.is_empty() => return Err("a name in the braces is empty".to_owned()),
            None => words.push(word.to_owned()),
        }
    }
    let mut all = Vec::new();
    for end in expanded(tail)? {
        all.extend(words.iter().map(|word| format!("{head}{word}{end}")));
    }
    if all.len() > MOST { Err(format!("more than {MOST} names")) } else { Ok(all) }
}

/// The unit as it is now; refused where it could not take part. Changes nothing.
pub fn checked(root: &Root, manager: &Manager, name: &str) -> Result<Service, Failure> {
    let refused = |reason: String| Failure::new(FAILURE, reason);
    let unit = systemd::find(root, name).map_err(|why| {
        let code = if matches!(why, systemd::NoUnit::BadName | systemd::NoUnit::NotAService { .. }) {
            NOT_UNDERSTOOD
        } else {
            FAILURE
        };
        Failure::new(code, no_unit(root, name, "compare --systemd", &why))
    })?;
    if name.ends_with('@') {
        return Err(Failure::new(
            NOT_UNDERSTOOD,
            format!("{name} is a template: name its instances, as in '{name}{{0,1}}'"),
        ));
    }
    let place = Place::of(root, &unit.name);
    let before = match place.look() {
        Ok(Found::Nothing) => Vec::new(),
        Ok(Found::Ours(files)) => files,
        Ok(found) => {
            let (Found::Foreign(path) | Found::Edited(path)) = &found else {
                return Err(refused(String::new()));
            };
            return Err(refused(foreign(&root.path(path), &found)));
        }
        Err(error) => return Err(refused(format!("{}: {error}", place.file().display()))),
    };
    let own = place.shown();
    if let Some(wider) = unit.drop_ins.iter().find(|file| **file != own && drop_in::is_own(root, file)) {
        let folder =
            wider.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
        let of = folder.trim_end_matches(".service.d");
        return Err(refused(format!(
            "{} gets vcmalloc by {}, which also applies to other units; run 'vcm disable {of}' first",
            unit.stem(),
            wider.display()
        )));
    }
    writable(&place.file()).map_err(|reason| {
        refused(format!("no drop-in can be written for {}: {reason}; nothing was changed", unit.stem()))
    })?;
    let shown = manager.show(unit.stem()).map_err(refused)?;
    let name = unit.stem();
    if shown.load == "masked" {
        return Err(refused(no_unit(
            root,
            name,
            "compare --systemd",
            &systemd::NoUnit::Masked { name: unit.name.clone() },
        )));
    }
    if shown.load != "loaded" {
        return Err(refused(format!(
            "systemd does not know {name} (it reports '{}'); run 'systemctl daemon-reload'",
            shown.load
        )));
    }
    if shown.refuses {
        return Err(refused(format!(
            "{name} may not be started or stopped manually (RefuseManualStart=, RefuseManualStop=)"
        )));
    }
    if shown.active != "active" || shown.main <= 0 {
        let how = if shown.active == "active" {
            "has no main process".to_owned()
        } else {
            format!("is not active: {}", shown.active)
        };
        return Err(refused(format!(
            "{name} {how}, so there is nothing to compare; start it ('systemctl start {name}') or omit it"
        )));
    }
    let role = role(root, &unit);
    Ok(Service { unit, place, role, before })
}

/// Whether a file can be made there, or what is above it that is.
fn writable(file: &Path) -> Result<(), String> {
    let existing: PathBuf = file
        .ancestors()
        .skip(1)
        .find(|folder| folder.symlink_metadata().is_ok())
        .unwrap_or(Path::new("/"))
        .to_path_buf();
    if !existing.is_dir() {
        return Err(format!("{} is not a folder", existing.display()));
    }
    access(&existing, AccessFlags::W_OK)
        .map_err(|error| format!("{}: {}", existing.display(), std::io::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        names(&patterns).map_err(|failure| failure.message)
    }

    #[test]
    fn patterns_are_what_a_shell_makes_of_them() {
        assert_eq!(
            of(&["ceph-osd@{1,3..5}"]).unwrap(),
            ["ceph-osd@1", "ceph-osd@3", "ceph-osd@4", "ceph-osd@5"]
        );
        assert_eq!(of(&["a,b.service c", "{a,d}{1,2}"]).unwrap(), ["a", "b", "c", "a1", "d1", "a2", "d2"]);
    }

    #[test]
    fn wrong_patterns_are_told() {
        for (pattern, words) in [
            ("a@{1", "unmatched opening brace"),
            ("a}", "unmatched closing brace"),
            ("a@{,1}", "empty"),
            ("a@{5..1}", "not an ascending range"),
            ("a@{x..y}", "not a range of numbers"),
            ("a@{{1}}", "nested braces"),
            ("a@{0..99999}", "at most 1000"),
            (",", "names no unit"),
        ] {
            let told = of(&[pattern]).unwrap_err();
            assert!(told.contains(words), "{pattern}: {told}");
        }
    }
}
