//! `--plan`: the cells, packages, permissions, time and disk of an experiment, and what this machine lacks. Starts, installs and makes
//! nothing.

use super::experiment::Experiment;
use super::lab::Lab;
use super::namespaces;
use super::other_system::{self, SYSTEM_MIB};
use super::packages;
use super::plan::{Choice, cells};
use super::request::{Request, check_library, check_places};
use super::space;
use super::understood::{self, is_not_understood};
use anyhow::Result;
use std::path::Path;
use vcm_measure::allocators::Places;
use vcm_measure::machine::package_version;
use vcm_measure::tell::{self, counted};

/// Prints it. Fails only if the request cannot be meant.
pub fn tell(lab: &Lab, experiment: &Experiment, request: &Request, choice: &Choice) -> Result<()> {
    let mut lacking = Vec::new();
    for checked in [(lab.check)(request), check_library(request, &choice.allocators), check_places(request)] {
        match checked {
            Err(error) if is_not_understood(&error) => return Err(error),
            Err(error) => lacking.push(format!("{error:#}")),
            Ok(()) => {}
        }
    }
    lacking.dedup();
    let mut lines = head(lab, experiment, choice);
    let needed = needed(experiment, request, choice)?;
    let versions = needed.iter().map(|(name, _)| package_version(name, None));
    let absent: Vec<&str> = needed
        .iter()
        .zip(versions.clone())
        .filter(|(_, version)| version.is_none())
        .map(|((name, _), _)| name.as_str())
        .collect();
    lines.push("packages:".to_owned());
    lines.extend(needed.iter().zip(versions).map(|((name, why), version)| match version {
        Some(version) => format!("    {name} {version}: {why}"),
        None => format!("    {name}, missing: {why}"),
    }));
    let debians = (lab.debians)(request);
    lines.extend(permissions_and_disk(request, &debians, &absent));
    lacking.extend(lacks(lab, request, &debians, &absent));
    lines.push(match lacking.is_empty() {
        true => "missing on this machine: nothing".to_owned(),
        false => "missing on this machine:".to_owned(),
    });
    lines.extend(lacking.iter().map(|one| format!("    {}", one.replace('\n', "\n    "))));
    lines.push("Nothing was run, installed or made.".to_owned());
    tell::result(&(lines.join("\n") + "\n"))
}

/// Time and cells.
fn head(lab: &Lab, experiment: &Experiment, choice: &Choice) -> Vec<String> {
    let (plan, kind) = match choice.quick {
        true => (&experiment.quick, "--quick"),
        false => (&experiment.full, "--full"),
    };
    let (of_run, allocators) = (cells(experiment, choice), experiment.allocators.to_vec());
    let declared = cells(experiment, &Choice { quick: choice.quick, repetitions: None, allocators }).len();
    let time = match of_run.len() == declared {
        true => format!("time: {} on two CPUs", plan.about),
        false => {
            format!("time: {} on two CPUs for {declared} cells; this run has {}", plan.about, of_run.len())
        }
    };
    let mut lines = vec![
        format!("{} {} {kind}: {}", lab.name, experiment.name, experiment.title),
        time,
        format!("allocators: {}", choice.allocators.join(", ")),
        format!("{}, in this order:", counted(of_run.len() as u64, "cell")),
    ];
    lines.extend(of_run.iter().map(|cell| format!("    {}", cell.tell())));
    lines
}

/// Packages and why, with those of allocators that are not there.
fn needed(experiment: &Experiment, request: &Request, choice: &Choice) -> Result<Vec<(String, String)>> {
    let own = experiment.packages.iter().map(|package| (package.name.to_owned(), package.why.to_owned()));
    let mut packages: Vec<(String, String)> = own.collect();
    for name in &choice.allocators {
        let allocator = understood::allocator(name)?;
        let Some(package) = allocator.package() else { continue };
        let ours = request.library.clone().unwrap_or_default();
        let is_there = Places { ours, for_daemons: true, ..Places::default() }.find(allocator).is_ok();
        let is_known = packages.iter().any(|(known, _)| known == package);
        // A library that came by other means than its package will do.
        let is_needed = !is_there || package_version(package, None).is_some();
        if is_needed && !is_known {
            packages.push((package.to_owned(), format!("the allocator {name}")));
        }
    }
    Ok(packages)
}

fn permissions_and_disk(request: &Request, debians: &[&str], absent: &[&str]) -> Vec<String> {
    let room = |place: &Path| match space::free_mib(place) {
        Some(mib) => format!("{}, {mib} MiB free", place.display()),
        None => place.display().to_string(),
    };
    let mut lines = vec![
        "permissions: root, for namespaces (processes, mounts, network), packages and files of daemons"
            .to_owned(),
        "disk:".to_owned(),
        format!("    {}: the files of the run, removed at its end", room(&request.work)),
    ];
    for suite in debians {
        let room = room(&request.cache);
        lines.push(format!("    {room}: Debian {suite}, about {SYSTEM_MIB} MiB, kept for later runs"));
    }
    if !absent.is_empty() {
        let planned = packages::planned(absent);
        let planned = planned.unwrap_or_else(|| "sizes are known after `apt-get update`".to_owned());
        lines.push(format!(
            "    missing packages with what they need: {planned}. They stay installed after the lab."
        ));
    }
    lines
}

fn lacks(lab: &Lab, request: &Request, debians: &[&str], absent: &[&str]) -> Vec<String> {
    let mut lacks = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        lacks.push("root: this process has other permissions".to_owned());
    } else if !namespaces::are_granted() {
        lacks.push("namespaces: the system refuses them".to_owned());
    }
    if !absent.is_empty() {
        let (count, command) = (counted(absent.len() as u64, "package"), packages::installing(absent));
        let by = match (lab.lives_here)() {
            Some(own) if !request.yes => format!("the run installs nothing beside {own} without --yes"),
            _ => "the run installs".to_owned(),
        };
        lacks.push(format!("{count}; {by}:\n    {command}"));
    }
    for suite in debians.iter().filter(|suite| !other_system::is_whole(&request.cache.join(suite))) {
        lacks.push(format!(
            "Debian {suite} in {}; the run sets it up, in some minutes",
            request.cache.display()
        ));
    }
    lacks
}
