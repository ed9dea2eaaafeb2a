//! `vcm replay`: a recorded trace on each allocator. See docs/design/replay.md.
//!
//! ```text
//! rounds    who runs when, what is taken off, the fit
//! report    for a reader, and as JSON;  page  for a browser
//! ```
//!
//! Processes, threads and memory are `vcm-replay`'s.

mod page;
mod report;
mod rounds;

use crate::arms;
use crate::cli::replay::Replay;
use crate::html;
use crate::table::Table;
use crate::trace_file::{self, wrong};
use rounds::Rounds;
use std::collections::BTreeMap;
use vcm_foreign::Shown;
use vcm_front::say::{self, FAILURE, Failure, Outcome, line};
use vcm_inspect::{machine, root::Root};
use vcm_measure::progress::Progress;
use vcm_measure::stop::Stop;
use vcm_measure::tree;
use vcm_replay::director::How;
use vcm_replay::survey::{Survey, survey_with};
use vcm_replay::tenants::{self, Tenants};
use vcm_trace::summarize;

/// The code by which a shell tells that SIGINT ended a program.
const INTERRUPTED: u8 = 130;

pub fn replay(arguments: &Replay) -> Outcome {
    let own = |error: anyhow::Error| Failure::new(FAILURE, format!("{error:#}"));
    let stop = Stop::on_signals().map_err(own)?;
    let progress = Progress::new();
    let reader = trace_file::open(&arguments.file)?;
    html::look(arguments.html.as_deref(), Some(&arguments.file))?;
    let arms = chosen(arguments)?;
    let goes_on = |events| {
        progress.passing(&format!("reading the trace, {:.1} million events", events as f64 / 1e6));
        !stop.is_asked()
    };
    let (arms, with_heaps) = if arguments.tenants { with_heaps(arms) } else { (arms, Vec::new()) };
    let mut table = Table::new(arms);
    let tenants = match arguments.tenants {
        true => tenants::find(trace_file::open(&arguments.file)?, goes_on),
        false => Ok(Some(Tenants::default())),
    };
    let survey = tenants.and_then(|found| match found {
        Some(tenants) => survey_with(reader, tenants, goes_on),
        None => Ok(None),
    });
    let survey = survey.map_err(|error| wrong(&arguments.file, &error))?;
    let survey = survey.ok_or_else(|| Failure::new(INTERRUPTED, "stopped by a signal"))?;
    can_be_replayed(arguments, &survey)?;
    tree::adopt_orphans().map_err(own)?;
    let speed = arguments.speed.or(arguments.paced.then_some(1.0));
    let mut rounds = Rounds {
        file: &arguments.file,
        survey: &survey,
        how: How {
            is_null: false,
            touched: 1.0,
            speed,
            limit: arguments.limit,
            rest: arguments.rest,
            has_heaps: false,
        },
        with_heaps,
        ends: BTreeMap::new(),
        library: arguments.library.as_deref(),
        stop: &stop,
        progress: &progress,
        null: BTreeMap::new(),
        courses: BTreeMap::new(),
        fidelity: Err(String::new()),
        given_up: 0,
        late_nanoseconds: 0,
    };
    rounds.fit();
    rounds.take(&mut table, arguments.repeat as usize);
    progress.end();
    told(arguments, &table, &rounds)
}

fn told(arguments: &Replay, table: &Table, rounds: &Rounds<'_>) -> Outcome {
    let is_stopped = rounds.stop.is_asked();
    let written = html::write(arguments.html.as_deref(), || {
        // A second reading, since a replay knows neither times nor owners of blocks.
        rounds.progress.step("reading the trace for its sizes and lifetimes");
        let summary = trace_file::again(&arguments.file).and_then(|mut reader| summarize(&mut reader)).ok();
        rounds.progress.end();
        page::page(table, rounds, summary.as_ref(), is_stopped)
    });
    say::result(&if arguments.json {
        report::json(table, rounds, is_stopped)
    } else {
        report::text(table, rounds)
    })?;
    written?;
    if let Some(why) = &rounds.survey.cut_off {
        line(&format!("vcm: {}: {why}; the readable part was replayed", arguments.file.shown()));
    }
    let is_whole = table.runs.iter().all(|runs| runs.failed.is_none()) && rounds.survey.cut_off.is_none();
    match (is_stopped, is_whole) {
        (true, _) => Err(Failure::new(INTERRUPTED, "stopped by a signal; finished rounds are reported")),
        (false, true) => Ok(0),
        (false, false) => Ok(FAILURE),
    }
}

fn chosen(arguments: &Replay) -> Result<Vec<vcm_measure::arm::Arm>, Failure> {
    let library = arguments.library.as_deref();
    if arguments.allocators.is_empty() {
        // The hardened library is there for its checks, not for its speed.
        return Ok(arms::found_by_themselves(&arms::BY_THEMSELVES[..5], library));
    }
    let mut found = Vec::new();
    for name in &arguments.allocators {
        arms::add(&mut found, arms::arm(name, library)?);
    }
    Ok(found)
}

/// Ours once more, each with heaps for tenants; and their names.
fn with_heaps(arms: Vec<vcm_measure::arm::Arm>) -> (Vec<vcm_measure::arm::Arm>, Vec<String>) {
    let (mut all, mut names) = (Vec::new(), Vec::new());
    for arm in arms {
        let twin = arm
            .is_ours
            .then(|| vcm_measure::arm::Arm { name: format!("{} with heaps", arm.name), ..arm.clone() });
        all.push(arm);
        names.extend(twin.iter().map(|twin| twin.name.clone()));
        all.extend(twin);
    }
    (all, names)
}

/// Refuses what would only end in a crash.
fn can_be_replayed(arguments: &Replay, survey: &Survey) -> Result<(), Failure> {
    let refused = |what: String| Err(Failure::new(FAILURE, format!("{}: {what}", arguments.file.shown())));
    if survey.allocations == 0 {
        let why = survey.cut_off.clone().unwrap_or_default();
        return refused(
            format!("the trace has no allocations to replay; {why}").trim_end_matches("; ").to_owned(),
        );
    }
    if arguments.tenants && survey.tenants.found.is_empty() {
        return refused(
            "it has no tenants: no thread frees 64 KiB of blocks that were there before it and does little else; \
             leave out --tenants"
                .to_owned(),
        );
    }
    let available = machine::available(&Root::real()).unwrap_or(u64::MAX);
    if survey.live_bytes > available {
        let (needs, has) = (survey.live_bytes >> 20, available >> 20);
        return refused(format!(
            "the trace needs {needs} MiB of live blocks and this machine has {has} MiB free; 'vcm trace cut' \
             makes a shorter one"
        ));
    }
    Ok(())
}
