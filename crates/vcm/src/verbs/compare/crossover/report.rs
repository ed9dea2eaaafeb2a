//! The findings of a run, for a reader, for programs and for a browser; and its plan.

use super::arms::{Fitted, Side};
use super::health::Health;
use super::schedule::{Schedule, span};
use super::state::{Kept, Number, State};
use super::units::Service;
use crate::html::compared::Compared;
use crate::html::origin;
use crate::table::{Runs, Table};
use crate::verbs::compare::{advice, json, verdict};
use crate::words::{block, notes};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use vcm_front::say;
use vcm_measure::crossover;
use vcm_measure::machine::Machine;
use vcm_measure::tree::Memory;
use vcm_measure::trial::Trial;
use vcm_report::{Column, Page, Part};

/// The measures that the chart of differences shows besides the judged ones.
const CHARTED: [&str; 6] =
    [verdict::EACH, "CPU time", "RSS", "write latency", "read latency", "minor faults"];
/// Told until a run on a real service has shown a difference that was planted there.
const EXPERIMENTAL: &str = "Experimental: planted differences were shown on test services only, not on a real \
 service.";
/// Told with --all only.
const DETAILS: [&str; 8] = [
    "PSS",
    "greatest RSS",
    "major faults",
    "involuntary switches",
    "heap live",
    "heap in caches",
    "heap free and kept",
    "mempools",
];

/// The finished periods as a table of arms; a round is a unit's cycle.
pub fn table(sides: &[Side], state: &State) -> Table {
    let mut table = Table::new(sides.iter().map(|side| side.arm.clone()).collect());
    let schedule = &state.schedule;
    for (period, units) in state.finished.iter().enumerate() {
        for (unit, kept) in units.iter().enumerate() {
            let Some(runs) = table.runs.get_mut(kept.arm) else { continue };
            runs.trials.insert(schedule.round(unit, period), trial(kept));
            runs.periods.insert(schedule.round(unit, period), period);
        }
    }
    table
}

fn trial(kept: &Kept) -> Trial {
    let memory = |(at, rss_bytes, pss_bytes): &(f64, f64, f64)| {
        (*at, Memory { rss_bytes: *rss_bytes, pss_bytes: *pss_bytes, ..Memory::default() })
    };
    Trial {
        readings: kept.readings.iter().map(Number::reading).collect(),
        stamp: kept.stamp.clone(),
        notes: kept.notes.clone(),
        course: kept.course.iter().map(memory).collect(),
        idle: None,
        said: String::new(),
    }
}

pub fn plan(
    services: &[Service],
    sides: &[Side],
    fitted: &[Vec<Fitted>],
    schedule: &Schedule,
    health: &Health,
) -> String {
    let total = schedule.period_seconds * schedule.periods() as f64;
    let restarts = schedule.periods() * schedule.units;
    let mut text = format!(
        "{EXPERIMENTAL}\n\n{} units, {} arms, {} periods of {}: {} plus restarts, until {} at the earliest.\n\
         {restarts} restarts, and one more of each unit at the end, which restores its present state. In each \
         period the units are\n\
         restarted one after the other; {} after the last restart are not measured, then {} are.\n\
         Before and after each restart: {}.\n\n",
        schedule.units,
        sides.len(),
        schedule.periods(),
        span(schedule.period_seconds),
        span(total),
        humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs_f64(total)),
        span(schedule.washout_seconds),
        span(schedule.measured_seconds()),
        health.words(services),
    );
    let wide = services
        .iter()
        .map(|service| service.name().len())
        .chain(sides.iter().map(|side| side.arm.name.len()))
        .max()
        .unwrap_or(0)
        + 2;
    let row = |first: String, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:<wide$}")).collect();
        format!("  {first:<22}{cells}").trim_end().to_owned() + "\n"
    };
    text += &row("period, from".into(), services.iter().map(|service| service.name().to_owned()).collect());
    for period in 0..schedule.periods() {
        let from = span(period as f64 * schedule.period_seconds);
        let arms = (0..services.len()).map(|unit| {
            sides.get(schedule.arm(unit, period)).map_or(String::new(), |side| side.arm.name.clone())
        });
        text += &row(format!("{:<4} +{from}", period + 1), arms.collect());
    }
    text += "\nWhat each arm is:\n";
    for (at, side) in sides.iter().enumerate() {
        for (service, of_unit) in services.iter().zip(fitted) {
            let Some(fitted) = of_unit.get(at) else { continue };
            let what = if fitted.files.is_empty() {
                format!("no {}", service.place.shown().display())
            } else {
                let library = fitted
                    .arm
                    .library
                    .as_ref()
                    .map_or("variables alone".to_owned(), |path| path.display().to_string());
                format!("{} with {library}", service.place.shown().display())
            };
            text += &format!("  {} on {}: {what}\n", service.name(), side.arm.name);
            fitted.notes.iter().for_each(|note| text += &format!("    {note}\n"));
        }
    }
    for service in services.iter().filter(|service| !service.before.is_empty()) {
        text += &format!("{} has a drop-in of 'vcm enable', which is restored at the end.\n", service.name());
    }
    text
}

fn about(state: &State, table: &Table) -> String {
    let schedule = &state.schedule;
    let periods: Vec<(usize, usize)> = match table.runs.as_slice() {
        [first, second, ..] => first
            .periods
            .iter()
            .filter_map(|(round, period)| Some((*period, *second.periods.get(round)?)))
            .collect(),
        _ => Vec::new(),
    };
    let taken_out = if crossover::fits_periods(&periods) {
        "Changes common to all units from one period to the next are subtracted."
    } else {
        "With so few units or periods, changes common to all units cannot be subtracted; only the order of the \
         arms balances them."
    };
    format!(
        "{} of {} periods of {} ({} of each left out), {} units: {} pairs. {taken_out}",
        state.finished.len(),
        schedule.periods(),
        span(schedule.period_seconds),
        span(schedule.washout_seconds),
        schedule.units,
        periods.len()
    )
}

/// The lines to write for an arm under these units, and the proof that they took.
fn applied(state: &State, sides: &[Side], runs: &Runs) -> (String, String) {
    let units: Vec<&str> = state.units.iter().map(|before| before.unit.as_str()).collect();
    let first = units.first().copied().unwrap_or_default();
    let id = format!("\"$(systemctl show --property MainPID --value {})\"", say::typed([first]));
    let is_system = sides.iter().any(|side| side.arm.name == runs.arm.name && side.is_without_drop_in());
    let mut text = String::new();
    let settings: Vec<String> = runs
        .arm
        .settings
        .iter()
        .filter_map(|(name, value)| {
            Some(format!(" --option {}={value}", name.strip_prefix("VCM_")?.to_lowercase()))
        })
        .collect();
    for unit in &units {
        let unit = say::typed([unit]);
        match (&runs.arm.library, runs.arm.is_ours) {
            _ if is_system => text += &format!("  sudo vcm disable {unit}\n"),
            (_, true) => text += &format!("  sudo vcm enable {unit}{}\n", settings.concat()),
            (library, false) => {
                let preload =
                    library.iter().map(|path| ("LD_PRELOAD".to_owned(), path.display().to_string()));
                text += &format!(
                    "  in /etc/systemd/system/{unit}.service.d/allocator.conf, then 'systemctl daemon-reload':\n    [Service]\n"
                );
                for (name, value) in preload.chain(runs.arm.settings.iter().cloned()) {
                    text += &format!("    Environment=\"{name}={value}\"\n");
                }
            }
        }
    }
    text += "  then restart them, one after the other\n";
    let proof = match (&runs.arm.library, runs.arm.is_ours && !is_system) {
        (_, true) => format!("sudo vcm check {id}"),
        (Some(library), false) if !is_system => {
            format!("grep -m1 -F {} /proc/{id}/maps", say::typed([library.display().to_string()]))
        }
        _ => format!("sudo vcm doctor {id}"),
    };
    (text, proof)
}

pub fn text(table: &Table, sides: &[Side], state: &State, all: bool) -> String {
    let finished = table.finished();
    let mut text = String::new();
    if let [first, others @ ..] = finished.as_slice() {
        text += &format!("{EXPERIMENTAL}\n{}\n{}\n", about(state, table), Machine::this());
        for measure in
            table.measures().iter().filter(|measure| all || !DETAILS.contains(&measure.name.as_str()))
        {
            text += &block(first, others, measure);
        }
        text += &notes(&finished);
        text += "\nEach value is a median over units and cycles, with its difference from the first arm within \
         unit and cycle,\n\
                 and the 99 % confidence interval. A difference is significant if the interval and a permutation \
                 test agree.\n\
                 Brackets: the smallest difference found in 4 of 5 such runs. About one line in a hundred is \
                 significant by chance.\n";
    }
    if let Some(advised) = advice::advised(table, |runs| applied(state, sides, runs)) {
        text += &format!("\n{}\n", advised.sentence);
        text += &advised.remarks.iter().map(|remark| format!("  {remark}\n")).collect::<String>();
        if let Some((snippet, proof)) = &advised.change {
            text += &format!("{snippet}  to verify:\n    {proof}\n");
        }
    }
    text
}

/// Raised when a name goes or changes its meaning.
const FORMAT: u32 = 1;

pub fn as_json(table: &Table, sides: &[Side], state: &State, is_whole: bool) -> String {
    let finished = table.finished();
    let measures = table.measures();
    let names: Vec<&str> = sides.iter().map(|side| side.arm.name.as_str()).collect();
    let schedule = &state.schedule;
    let turns = |period: usize| -> Value {
        let arms: Vec<&str> =
            (0..schedule.units).filter_map(|unit| names.get(schedule.arm(unit, period)).copied()).collect();
        json!({ "period": period, "arms": arms, "is_finished": period < state.finished.len() })
    };
    let whole = json!({
        "format": FORMAT,
        "units": state.units.iter().map(|before| &before.unit).collect::<Vec<_>>(),
        "machine": Machine::this(),
        "stopped": !is_whole,
        "experimental": true,
        "schedule": {
            "cycles": schedule.cycles,
            "period_seconds": schedule.period_seconds,
            "washout_seconds": schedule.washout_seconds,
            "periods": (0..schedule.periods()).map(turns).collect::<Vec<_>>(),
        },
        "allocators": table.runs.iter().map(|runs| json::allocator(runs, &measures)).collect::<Vec<_>>(),
        "comparisons": json::comparisons(&finished, &measures),
        "recommendation": json::recommendation(table, &finished, |runs| applied(state, sides, runs).1),
    });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

pub fn page(table: &Table, sides: &[Side], state: &State, is_whole: bool) -> Page {
    let compared = Compared::new(table);
    let judged = verdict::judged(table);
    let advised = advice::advised(table, |runs| applied(state, sides, runs));
    let mut outcome: Vec<String> = vec![EXPERIMENTAL.to_owned()];
    match &advised {
        Some(advised) => {
            outcome.push(advised.sentence.clone());
            outcome.extend(advised.remarks.iter().cloned());
        }
        None => outcome.push("Nothing to compare.".to_owned()),
    }
    if !is_whole {
        outcome.push("The run did not finish: these are the finished periods.".to_owned());
    }
    let mut parts = Vec::new();
    if let Some((snippet, proof)) = advised.and_then(|advised| advised.change) {
        let code =
            |what: &str, text: &str| Part::Code { what: what.to_owned(), text: text.trim_end().to_owned() };
        parts.push(Part::Folded {
            head: "How to apply and verify it".to_owned(),
            parts: vec![code("", &snippet), code("The proof:", &proof)],
        });
    }
    if let Some((speed, memory)) =
        judged.as_ref().and_then(|judged| Some((&judged.speed, judged.memory.as_ref()?)))
    {
        parts.extend(compared.scatter(speed, memory));
    }
    let mut names: Vec<&str> = judged.iter().map(|judged| judged.speed.name.as_str()).collect();
    names.extend(CHARTED.iter().filter(|name| !names.contains(name)).copied().collect::<Vec<_>>());
    parts.extend(compared.differences(&names));
    parts.push(compared.medians("Measurements", |measure| !DETAILS.contains(&measure.name.as_str())));
    parts.push(Part::Note("Medians over units and cycles. Below each: its difference from the first arm within \
     unit and cycle, the 99 % confidence interval, and the smallest difference found in 4 of 5 such runs. About \
     one line in a hundred is significant by chance.".to_owned()));
    parts.push(Part::Folded {
        head: "More measures".to_owned(),
        parts: vec![compared.medians("", |measure| DETAILS.contains(&measure.name.as_str()))],
    });
    parts.push(compared.every_round());
    parts.extend(compared.over_time());
    parts.push(Part::Folded {
        head: "Arm of each unit over time".to_owned(),
        parts: vec![turns(sides, state)],
    });
    parts.extend(compared.stamps());
    parts.extend(origin());
    Page {
        title: format!("Which allocator for {}", state.names()),
        about: about(state, table),
        outcome: outcome.join("\n"),
        parts,
    }
}

fn turns(sides: &[Side], state: &State) -> Part {
    let schedule = &state.schedule;
    let row = |period: usize| {
        let name =
            |unit| sides.get(schedule.arm(unit, period)).map_or(String::new(), |side| side.arm.name.clone());
        let is_finished = if period < state.finished.len() { "" } else { " (not finished)" };
        let first = vcm_report::Cell::text(format!("{}{is_finished}", period + 1));
        let cells = (0..schedule.units).map(|unit| vcm_report::Cell::text(name(unit)));
        vcm_report::Row::of(std::iter::once(first).chain(cells).collect())
    };
    let columns = std::iter::once(Column::text("period"))
        .chain(state.units.iter().map(|before| Column::text(before.unit.clone())));
    Part::Table(vcm_report::Table {
        title: String::new(),
        columns: columns.collect(),
        rows: (0..schedule.periods()).map(row).collect(),
    })
}
