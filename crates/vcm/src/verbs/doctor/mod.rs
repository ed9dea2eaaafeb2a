//! `vcm doctor`: which allocator each storage daemon really runs, with which settings, and what is wrong.
//!
//! ```text
//! survey     looks at daemons and machine, once; settings: the allocator's settings and their origin; jemalloc: its options
//! check      what a check is; runs all of them over the survey
//! checks/    one declaration a file; commands: what they propose, as it fits the way in which the daemon runs
//! report     the text: totals and findings; blocks: the daemons; names: many of them in few words
//! json       the same for programs; markdown: the reference page's list of checks
//! fake       a machine in a folder, for the checks' tests
//! ```
//!
//! Reads only. Without the rights for a file it goes on and says what it could not see.

mod blocks;
mod check;
mod checks;
mod commands;
#[cfg(test)]
mod fake;
mod jemalloc;
mod json;
mod markdown;
mod names;
mod report;
mod settings;
mod survey;

use crate::cli::doctor::{Doctor, Severity};
use std::time::Duration;
use survey::{Survey, daemons_on};
use vcm_front::page::Page;
use vcm_front::say::{self, Failure, Outcome};
use vcm_inspect::daemon::Role;
use vcm_inspect::process::Process;
use vcm_inspect::root::Root;
use vcm_inspect::systemd;
use vcm_inspect::window;

/// Findings were shown.
const FOUND: u8 = 1;
/// The machine could not be looked at as asked.
const CANNOT_LOOK: u8 = 2;

const UNTIL_EXEC: Duration = Duration::from_secs(10);

pub fn doctor(arguments: &Doctor) -> Outcome {
    if arguments.list {
        return say::result(&report::list(&checks::ALL));
    }
    if arguments.markdown {
        return say::result(&markdown::page(&checks::ALL));
    }
    let root = arguments.root.clone().map_or_else(Root::real, Root::at);
    let ids = ids_of(&root, &arguments.targets)?;
    let survey = Survey::of(root, &ids);
    if survey.daemons.is_empty() && !arguments.targets.is_empty() {
        return Err(cannot("the processes have ended"));
    }
    let mut findings = check::run(&checks::ALL, &survey);
    let least = arguments.severity.unwrap_or(Severity::Note);
    findings.found.retain(|finding| finding.severity >= least);
    let text = if arguments.json {
        json::text(&survey, &findings).map_err(|error| cannot(format!("cannot write JSON: {error}")))?
    } else {
        report::text(&survey, &findings, Page::of_terminal())
    };
    say::result(&text)?;
    if !arguments.targets.is_empty() && survey.without_allocator().next().is_some() {
        return Ok(CANNOT_LOOK);
    }
    Ok(if findings.found.is_empty() { 0 } else { FOUND })
}

fn cannot(message: impl Into<String>) -> Failure {
    Failure::new(CANNOT_LOOK, message)
}

/// The processes that were asked for; without words, all storage daemons.
fn ids_of(root: &Root, targets: &[String]) -> Result<Vec<i32>, Failure> {
    let recognised = daemons_on(root);
    if targets.is_empty() {
        return Ok(recognised.into_iter().map(|(id, _)| id).collect());
    }
    let mut ids: Vec<i32> = Vec::new();
    for target in targets {
        let family: Option<fn(Role) -> bool> = match target.as_str() {
            "ceph" => Some(Role::is_ceph),
            "gluster" => Some(Role::is_gluster),
            _ => None,
        };
        match (family, target.parse::<i32>()) {
            (Some(family), _) => {
                let of_it: Vec<i32> =
                    recognised.iter().filter(|(_, role)| family(*role)).map(|(id, _)| *id).collect();
                if of_it.is_empty() {
                    return Err(cannot(format!("no {target} daemon runs on this machine")));
                }
                ids.extend(of_it);
            }
            (None, Ok(id)) if id > 0 => {
                if let Some(why) = Process::in_root(root, id).condition().why_not_seen() {
                    return Err(cannot(format!("{id} {why}")));
                }
                // Right after a restart it may still be systemd on the way to its program.
                Process::in_root(root, id).wait_for_exec(UNTIL_EXEC);
                ids.push(id);
            }
            _ if matches!(target.as_str(), "" | "0") => return Err(cannot(no_main_process(root, target))),
            _ if window::is_number(target) => return Err(cannot(format!("{target} is no process id"))),
            _ => {
                let named = window::named(root, target);
                if named.is_empty() {
                    return Err(cannot(format!(
                        "{target}: no process is called so; write 'ceph', 'gluster', process ids or names"
                    )));
                }
                ids.extend(named);
            }
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// The message for what `systemctl show --property MainPID` gives where nothing runs.
fn no_main_process(root: &Root, target: &str) -> String {
    if !systemd::is_running(root) {
        return "systemd does not run here, so systemctl knows no process: write 'ceph', 'gluster', process ids or names".into();
    }
    match target {
        "0" => {
            "0: systemd reports 0 for a unit that is not running; 'systemctl status UNIT' shows why".into()
        }
        _ => "the process id is empty: 'systemctl show --property MainPID --value UNIT' has none".into(),
    }
}
