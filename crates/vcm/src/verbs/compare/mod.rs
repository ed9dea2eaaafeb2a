//! `vcm compare`: the user's program under each allocator. See docs/design/compare.md.
//!
//! ```text
//! arms       who takes part;  linked  what that means for a program that is linked with one
//! verdict    what is recommended
//! apply      how it is applied, and proved
//! advice     what is recommended, in words
//! report     for a reader;  json  for programs;  page  for a browser
//! crossover  services that run already, in turns
//! ```
//!
//! Runs, processes and statistics are `vcm-measure`'s.

mod advice;
mod apply;
mod arms;
mod crossover;
mod json;
mod linked;
mod page;
mod report;
mod verdict;

use crate::cli::compare::Compare;
use crate::html;
use crate::table::Table;
use std::env;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, INTERRUPTED, NOT_UNDERSTOOD, Outcome};
use vcm_inspect::command;
use vcm_measure::progress::Progress;
use vcm_measure::spoken::{Better, Pattern, Regex};
use vcm_measure::stop::Stop;
use vcm_measure::tree;
use vcm_measure::trial::{self, End, Failed, Job, Ready, Service, Signal};
use vcm_measure::turns;

pub fn compare(arguments: Compare) -> Outcome {
    if arguments.command.is_empty() {
        return crossover::crossover(&arguments);
    }
    let job = job(&arguments)?;
    html::look(arguments.html.as_deref(), None)?;
    let mut table = Table::new(linked::fitted(arms::chosen(&arguments)?, &arguments));
    let own = |error: anyhow::Error| Failure::new(FAILURE, format!("{error:#}"));
    tree::adopt_orphans().map_err(own)?;
    let stop = Stop::on_signals().map_err(own)?;
    let progress = Progress::new();
    take_turns(&mut table, &job, arguments.repeat as usize, &stop, &progress);
    progress.end();
    let is_stopped = stop.is_asked();
    let written = html::write(arguments.html.as_deref(), || page::page(&table, &job, is_stopped));
    say::result(&if arguments.json {
        json::text(&table, &job.command, is_stopped)
    } else {
        report::text(&table, &job.command, arguments.all)
    })?;
    written?;
    let is_whole = table.runs.iter().all(|runs| runs.failed.is_none());
    match (is_stopped, is_whole) {
        (true, _) => Err(Failure::new(INTERRUPTED, "stopped by a signal; finished rounds are reported")),
        (false, true) => Ok(0),
        (false, false) => Ok(FAILURE),
    }
}

/// Runs all arms in every round, each round beginning with another. An arm that fails is left out from then on.
fn take_turns(table: &mut Table, job: &Job, rounds: usize, stop: &Stop, progress: &Progress) {
    let places: Vec<usize> = (0..table.runs.len()).collect();
    progress.begin(rounds * places.len());
    for turn in turns::interleaved(rounds, &[()], |()| places.iter().collect()) {
        let Some(runs) = table.runs.get_mut(*turn.allocator) else { continue };
        if stop.is_asked() {
            return;
        }
        if runs.failed.is_none() {
            progress.cell(&format!("round {} of {rounds}, {}", turn.pass + 1, runs.arm.name));
            match trial::run(job, &runs.arm, &|| stop.is_asked()) {
                Ok(trial) => drop(runs.trials.insert(turn.pass, trial)),
                Err(Failed::Stopped) => return,
                Err(Failed::Because(reason) | Failed::Unseen(reason)) => {
                    // The report has it.
                    runs.failed = Some(reason);
                }
            }
        }
        progress.cell_done();
    }
}

fn job(arguments: &Compare) -> Result<Job, Failure> {
    let wrong = |reason: String| Failure::new(NOT_UNDERSTOOD, reason);
    let more = arguments.metric.iter().map(|text| Pattern::new(text, Better::More));
    let less = arguments.cost.iter().map(|text| Pattern::new(text, Better::Less));
    let patterns = more.chain(less).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let service = match (&arguments.load, &arguments.ready) {
        (Some(load), Some(ready)) => {
            let (load, ready) = (load.clone(), ready_when(ready)?);
            Some(Service { ready, load, loaded: None, idle: arguments.idle, end: End::By(Signal::SIGTERM) })
        }
        _ => None,
    };
    let name = arguments.command.first().map(|name| name.as_os_str()).unwrap_or_default();
    let search_path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    command::resolve(name, &search_path).map_err(|_| {
        Failure::new(FAILURE, format!("{}: no such command, or it cannot be executed", name.shown()))
    })?;
    let command = arguments.command.clone();
    Ok(Job { command, service, limit: arguments.limit, patterns, ..Job::default() })
}

fn ready_when(text: &str) -> Result<Ready, Failure> {
    if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        let port = text.parse().ok().filter(|port| *port > 0).map(Ready::Port);
        let wrong = || Failure::new(NOT_UNDERSTOOD, format!("--ready {text}: ports are 1 to 65535"));
        return port.ok_or_else(wrong);
    }
    let wrong = |error| {
        Failure::new(
            NOT_UNDERSTOOD,
            format!("--ready '{text}' is neither a port nor a regular expression: {error}"),
        )
    };
    Regex::new(text).map(Ready::Says).map_err(wrong)
}
