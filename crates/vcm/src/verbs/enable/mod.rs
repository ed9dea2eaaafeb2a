//! `vcm enable UNIT` and `vcm disable UNIT`: a systemd drop-in that preloads vcmalloc, and its removal.
//!
//! ```text
//! applying   the commands that apply, prove and undo it
//! ```
//!
//! The choice of a unit's variables is `unit_plan`'s, the files are `drop_in`'s: `vcm compare --systemd` has them
//! too. Writes only files of its own, each at once or not at all; prints exactly what it wrote.

mod applying;
#[cfg(test)]
mod tests;

use crate::cli::enable::{Disable, Enable};
use crate::drop_in::{self, Found, Place, foreign};
use crate::restart;
use crate::unit_plan::{Plan, Wanted, no_unit};
use applying::Service;
use std::fmt::Write;
use std::path::Path;
use vcm_front::say::{self, FAILURE, Failure, NOT_UNDERSTOOD, Outcome};
use vcm_inspect::root::Root;
use vcm_inspect::systemd::{self, NoUnit, Unit};

pub fn enable(arguments: &Enable) -> Outcome {
    let root = root_of(arguments.root.as_deref())?;
    let unit = find(&root, &arguments.unit, "enable")?;
    let wanted = Wanted { library: arguments.library.as_deref(), hardened: arguments.hardened };
    let plan = Plan::of(&root, &unit, &arguments.settings, &wanted)?;
    let place = Place::of(&root, &unit.name);
    let before = place.look().map_err(|error| failed(&place, &error))?;
    if let Found::Foreign(path) | Found::Edited(path) = &before {
        return Err(refused(foreign(&root.path(path), &before)));
    }
    let files = plan.files(&place);
    let is_same = before == Found::Ours(files.clone());
    if !is_same && !arguments.dry_run {
        place.write(&files).map_err(|error| failed(&place, &error))?;
    }
    let verb = match (is_same, arguments.dry_run) {
        (true, _) => "Already there",
        (false, true) => "Would write",
        (false, false) => "Wrote",
    };
    say::result(&enabled_text(&root, &unit, &plan, &files, verb))
}

pub fn disable(arguments: &Disable) -> Outcome {
    let root = root_of(arguments.root.as_deref())?;
    let name = name_to_disable(&root, &arguments.unit)?;
    let place = Place::of(&root, &name);
    match place.look().map_err(|error| failed(&place, &error))? {
        Found::Nothing => say::result(&not_enabled(&root, &name)),
        Found::Ours(_) => {
            let removed = if arguments.dry_run { place.ours() } else { place.remove() };
            let removed = removed.map_err(|error| failed(&place, &error))?;
            let verb = if arguments.dry_run { "Would remove" } else { "Removed" };
            let mut text = String::new();
            removed.iter().for_each(|path| put(&mut text, &format!("{verb} {}", root.path(path).display())));
            put(&mut text, "");
            let unit = systemd::find(&root, &name).ok();
            let service = unit.as_ref().map_or(Service::gone(stem(&name)), |unit| Service::of(&root, unit));
            applying::applying(&root, &service, true).iter().for_each(|line| put(&mut text, line));
            say::result(&text)
        }
        found @ (Found::Foreign(_) | Found::Edited(_)) => {
            let (Found::Foreign(path) | Found::Edited(path)) = &found else { return Ok(0) };
            Err(refused(foreign(&root.path(path), &found)))
        }
    }
}

fn root_of(folder: Option<&Path>) -> Result<Root, Failure> {
    let Some(folder) = folder else { return Ok(Root::real()) };
    if !folder.is_dir() {
        let message = format!("--root {}: no such folder", folder.display());
        return Err(Failure::new(NOT_UNDERSTOOD, message));
    }
    Ok(Root::at(std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())))
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new(FAILURE, message)
}

fn failed(place: &Place, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied if !nix::unistd::geteuid().is_root() => "; run it as root",
        _ => "",
    };
    refused(format!("{}: {error}{hint}; nothing was changed", place.file().display()))
}

fn find(root: &Root, asked: &str, verb: &str) -> Result<Unit, Failure> {
    systemd::find(root, asked).map_err(|why| not_found(root, asked, verb, &why))
}

fn not_found(root: &Root, asked: &str, verb: &str, why: &NoUnit) -> Failure {
    let is_wrong = matches!(why, NoUnit::BadName | NoUnit::NotAService { .. });
    Failure::new(if is_wrong { NOT_UNDERSTOOD } else { FAILURE }, no_unit(root, asked, verb, why))
}

/// The unit's own name; a drop-in may outlive its unit.
fn name_to_disable(root: &Root, asked: &str) -> Result<String, Failure> {
    match systemd::find(root, asked) {
        Ok(unit) => Ok(unit.name),
        Err(why @ (NoUnit::BadName | NoUnit::NotAService { .. })) => {
            Err(not_found(root, asked, "disable", &why))
        }
        Err(why) => {
            let name = format!("{}.service", asked.strip_suffix(".service").unwrap_or(asked));
            let is_left = Place::of(root, &name).look().is_ok_and(|found| found != Found::Nothing);
            if is_left { Ok(name) } else { Err(refused(no_unit(root, asked, "disable", &why))) }
        }
    }
}

fn not_enabled(root: &Root, name: &str) -> String {
    let template = stem(name).split_once('@').map(|(template, _)| format!("{template}@"));
    let by_template = template.filter(|template| {
        let file = format!("{template}.service");
        file != name && Place::of(root, &file).look().is_ok_and(|found| found != Found::Nothing)
    });
    match by_template {
        Some(template) => format!("{name} gets it with all instances: vcm disable {template}\n"),
        None => format!("{name} was not enabled by vcm; nothing to undo\n"),
    }
}

fn stem(name: &str) -> &str {
    name.strip_suffix(".service").unwrap_or(name)
}

fn put(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

fn enabled_text(root: &Root, unit: &Unit, plan: &Plan, files: &[drop_in::File], verb: &str) -> String {
    let mut text = String::new();
    if let Some(alias) = &unit.asked_as {
        put(&mut text, &format!("{alias} is another name of {}.", unit.name));
    }
    plan.notes.iter().for_each(|note| put(&mut text, note));
    for file in files {
        put(&mut text, &format!("\n{verb} {}:\n", root.path(&file.path).display()));
        file.text.lines().for_each(|line| put(&mut text, &format!("    {line}")));
    }
    put(&mut text, "");
    let name = unit.stem();
    let service = Service::of(root, unit);
    applying::applying(root, &service, false).iter().for_each(|line| put(&mut text, line));
    if !root.is_real() {
        let folder = root.path("/");
        put(&mut text, &format!("To undo it:\n    sudo vcm disable {name} --root {}", folder.display()));
        return text;
    }
    if systemd::is_running(root) {
        applying::proving(&service, plan.is_stand_in).iter().for_each(|line| put(&mut text, line));
    }
    put(&mut text, &format!("To undo it:\n    sudo vcm disable {name}"));
    if systemd::is_running(root) && !name.ends_with('@') {
        put(
            &mut text,
            &format!(
                "If it does not come up, the one line that leads back:\n    {}",
                restart::way_back(name)
            ),
        );
    }
    text
}
