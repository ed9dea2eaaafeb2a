//! The report, for a reader and as JSON.

use super::rounds::{Rounds, mean};
use crate::table::{Measure, Runs, Table};
use crate::words::{block, notes};
use serde_json::{Value, json};
use std::fmt::Write;
use vcm_inspect::process::Process;
use vcm_measure::machine::Machine;
use vcm_measure::statistics::median;
use vcm_replay::survey::Survey;
use vcm_replay::tenants::Tenant;

/// Raised when a name of the JSON goes or changes its meaning.
const FORMAT: u32 = 1;
const MIB: f64 = (1 << 20) as f64;

pub fn text(table: &Table, rounds: &Rounds<'_>) -> String {
    let finished = table.finished();
    let mut text = what(rounds);
    text += &remarks(rounds);
    if let [first, others @ ..] = finished.as_slice() {
        let count = first.trials.len();
        _ = writeln!(text, "{count} rounds of {} allocators", finished.len());
        for measure in table.measures() {
            text += &block(first, others, &measure);
        }
        text += &notes(&finished);
        text += &ranking(&finished, table, rounds);
    }
    for runs in &table.runs {
        if let Some(reason) = &runs.failed {
            _ = writeln!(text, "\n{} is left out: {reason}", runs.arm.name);
        }
    }
    text
}

/// The trace that was replayed, and where.
pub fn what(rounds: &Rounds<'_>) -> String {
    let (mut text, survey) = (String::new(), rounds.survey);
    _ = writeln!(
        text,
        "{:.1} million events of {} threads, {:.1} s of the program; {}; {}",
        survey.events as f64 / 1e6,
        survey.streams,
        seconds(rounds),
        mode(rounds),
        Machine::this(),
    );
    if let Some(course) = rounds.courses.values().next() {
        let live: Vec<(u64, f64)> = course.iter().map(|(time, live, _)| (*time, *live as f64)).collect();
        let peak = live.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        let end = live.last().map_or(0.0, |(_, bytes)| *bytes);
        let (peak, mean, end) = (peak / MIB, mean(&live) / MIB, end / MIB);
        _ = writeln!(text, "live: {peak:.1} MiB at most, {mean:.1} on average, {end:.1} at the end");
    }
    text
}

fn seconds(rounds: &Rounds<'_>) -> f64 {
    let (first, last) = rounds.survey.nanoseconds;
    last.saturating_sub(first) as f64 / 1e9
}

fn mode(rounds: &Rounds<'_>) -> String {
    match rounds.how.speed {
        None if rounds.how.rest.is_zero() => "at full speed (shows no memory released while idle)".to_owned(),
        None => format!("at full speed, then {:?} at rest", rounds.how.rest),
        Some(speed) if rounds.how.rest.is_zero() => format!("paced, {speed} times as fast as recorded"),
        Some(speed) => {
            format!("paced, {speed} times as fast as recorded, then {:?} at rest", rounds.how.rest)
        }
    }
}

/// The cost of replaying itself: nanoseconds of processor time an event, and events a second of the clock.
fn alone(rounds: &Rounds<'_>) -> Option<(f64, f64)> {
    let events = rounds.survey.events as f64;
    let each: Vec<f64> = rounds.null.values().map(|run| run.cpu_nanoseconds as f64 / events).collect();
    let rate: Vec<f64> = rounds.null.values().map(|run| events / run.wall.as_secs_f64()).collect();
    Some((median(&each)?, median(&rate)?))
}

pub fn remarks(rounds: &Rounds<'_>) -> String {
    let (mut text, survey) = (String::new(), rounds.survey);
    if let Some((each, rate)) = alone(rounds) {
        let rate = rate / 1e6;
        _ = writeln!(
            text,
            "replaying costs {each:.1} ns per event, which is subtracted ({rate:.1} million events per second)"
        );
    }
    _ = match &rounds.fidelity {
        Ok(fidelity) => writeln!(
            text,
            "fidelity: {:.2} of the recorded peak, {:.2} of the mean, with {:.0} % of blocks above 64 KiB touched",
            fidelity.peak,
            fidelity.mean,
            rounds.how.touched * 100.0
        ),
        Err(why) => writeln!(text, "fidelity is unknown: {why}; every page of a block is touched"),
    };
    text += &tenants(survey);
    for (count, what) in [
        (survey.unknown, "frees of unknown blocks are left out"),
        (survey.lost, "events were lost in the recording"),
        (rounds.given_up, "frees were skipped: the trace is inconsistent"),
        (rounds.late_nanoseconds / 1_000_000, "ms: the longest delay of a thread"),
    ] {
        if count > 0 {
            _ = writeln!(text, "{count} {what}");
        }
    }
    text
}

fn tenants(survey: &Survey) -> String {
    let found = &survey.tenants.found;
    if found.is_empty() {
        return String::new();
    }
    let sum = |of: fn(&Tenant) -> u64| found.iter().map(of).sum::<u64>();
    let (blocks, bytes) = (sum(|tenant| tenant.blocks), sum(|tenant| tenant.bytes) as f64);
    let all = survey.tenants.live_bytes as f64;
    format!(
        "{} tenants end, with {blocks} blocks of {:.1} MiB: {:.1} % of the {:.1} MiB that were live when the first began to end\n",
        found.len(),
        bytes / MIB,
        100.0 * bytes / all.max(1.0),
        all / MIB
    )
}

fn ranking(finished: &[&Runs], table: &Table, rounds: &Rounds<'_>) -> String {
    let Some(ranked) = ranked(finished, table, rounds) else {
        return format!("\n{NO_RANKING}\n");
    };
    let mut text = String::from("\nIn order of the medians, which may not differ significantly:\n");
    for line in ranked {
        _ = writeln!(text, "  {line}");
    }
    text
}

pub const NO_RANKING: &str = "No ranking: the replay is off by more than 10 % from what was recorded.";

/// The order by each measure; none where the replay is too far from what was recorded.
pub fn ranked(finished: &[&Runs], table: &Table, rounds: &Rounds<'_>) -> Option<Vec<String>> {
    if let Ok(fidelity) = &rounds.fidelity
        && !fidelity.is_near()
    {
        return None;
    }
    let line = |name: &str| {
        let measure = table.measure(name)?;
        let value = |runs: &Runs| median(&runs.values(&measure).into_values().collect::<Vec<_>>());
        let mut order: Vec<(&str, f64)> =
            finished.iter().filter_map(|runs| Some((runs.arm.name.as_str(), value(runs)?))).collect();
        order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        if !finished.first().is_some_and(|first| differs(first, finished, &measure)) {
            return Some(format!("{name}: no significant difference"));
        }
        let names: Vec<&str> = order.iter().map(|(name, _)| *name).collect();
        Some(format!("{name}: {}", names.join(", ")))
    };
    Some(["time in the allocator", "peak memory", "mean memory"].into_iter().filter_map(line).collect())
}

/// Whether any is shown to differ from the first: an order of what chance has sorted would be read as one of merit.
pub fn differs(first: &Runs, finished: &[&Runs], measure: &Measure) -> bool {
    let is_shown =
        |runs: &&Runs| runs.difference(first, measure).is_some_and(|difference| difference.is_shown);
    finished.iter().filter(|runs| !std::ptr::eq(**runs, first)).any(is_shown)
}

pub fn json(table: &Table, rounds: &Rounds<'_>, is_stopped: bool) -> String {
    let measures = table.measures();
    let allocator = |runs: &Runs| {
        let measured = |measure: &crate::table::Measure| {
            let values = runs.values(measure);
            json!({ "name": measure.name, "unit": measure.unit, "rounds": values.keys().collect::<Vec<_>>(),
                    "values": values.values().collect::<Vec<_>>() })
        };
        json!({
            "name": runs.arm.name,
            "stamp": runs.trials.values().next().map(|trial| &trial.stamp),
            "left_out": runs.failed,
            "measures": measures.iter().map(measured).collect::<Vec<_>>(),
            "course": rounds.courses.get(&runs.arm.name),
            "ends": rounds.ends.get(&runs.arm.name),
        })
    };
    let whole = json!({
        "format": FORMAT,
        "trace": rounds.survey,
        "mode": if rounds.how.speed.is_some() { "paced" } else { "asap" },
        "speed": rounds.how.speed,
        "machine": Machine::this(),
        "stopped": is_stopped,
        "fidelity": rounds.fidelity.as_ref().ok(),
        "fidelity_unknown": rounds.fidelity.as_ref().err(),
        "tenants": rounds.survey.tenants.found,
        "live_bytes_when_tenants_end": rounds.survey.tenants.live_bytes,
        "touched_of_large": rounds.how.touched,
        "given_up": rounds.given_up,
        "replaying_alone": alone(rounds).map(|(each, rate)| json!({ "nanoseconds": each, "events_per_second": rate })),
        "tool_peak_bytes": Process::new(std::process::id() as i32).status_bytes("VmHWM"),
        "allocators": table.runs.iter().map(allocator).collect::<Vec<_>>(),
        "comparisons": comparisons(table),
    });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

fn comparisons(table: &Table) -> Vec<Value> {
    let (finished, measures) = (table.finished(), table.measures());
    let Some((first, others)) = finished.split_first() else { return Vec::new() };
    let compared = |runs: &&Runs| {
        let of = |measure: &crate::table::Measure| {
            let difference = runs.difference(first, measure)?;
            Some(json!({ "allocator": runs.arm.name, "against": first.arm.name, "measure": measure.name,
                         "by": difference.by, "interval": difference.interval, "is_shown": difference.is_shown }))
        };
        measures.iter().filter_map(of).collect::<Vec<_>>()
    };
    others.iter().flat_map(compared).collect()
}
