//! The same as JSON, with every value: a public format.

use super::apply;
use super::verdict::{self, Advice, Gain};
use crate::table::{Measure, Runs, Table};
use serde_json::{Value, json};
use std::ffi::OsString;
use vcm_foreign::Shown;
use vcm_measure::machine::Machine;

/// Raised when a name goes or changes its meaning.
const FORMAT: u32 = 1;

pub fn text(table: &Table, command: &[OsString], is_stopped: bool) -> String {
    let finished = table.finished();
    let measures = table.measures();
    let words: Vec<_> = command.iter().map(|word| word.shown().printed()).collect();
    let whole = json!({
        "format": FORMAT,
        "command": words,
        "machine": Machine::this(),
        "stopped": is_stopped,
        "allocators": table.runs.iter().map(|runs| allocator(runs, &measures)).collect::<Vec<_>>(),
        "comparisons": comparisons(&finished, &measures),
        "recommendation": recommendation(table, &finished, |runs| apply::proof(runs, command)),
    });
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

pub fn allocator(runs: &Runs, measures: &[Measure]) -> Value {
    let measured = measures.iter().map(|measure| {
        let values = runs.values(measure);
        json!({
            "name": measure.name,
            "unit": measure.unit,
            "better": measure.better,
            "rounds": values.keys().collect::<Vec<_>>(),
            "values": values.values().collect::<Vec<_>>(),
        })
    });
    let mut notes: Vec<&String> = runs.trials.values().flat_map(|trial| &trial.notes).collect();
    notes.sort();
    notes.dedup();
    json!({
        "name": runs.arm.name,
        "stamp": runs.trials.values().next().map(|trial| &trial.stamp),
        "left_out": runs.failed,
        "notes": notes,
        "measures": measured.collect::<Vec<_>>(),
    })
}

pub fn comparisons(finished: &[&Runs], measures: &[Measure]) -> Vec<Value> {
    let Some((first, others)) = finished.split_first() else { return Vec::new() };
    let compared = |runs: &&Runs| {
        let of = |measure: &Measure| {
            let difference = runs.difference(first, measure)?;
            Some(json!({
                "allocator": runs.arm.name,
                "against": first.arm.name,
                "measure": measure.name,
                "rounds": difference.rounds,
                "by": difference.by,
                "interval": difference.interval,
                "smallest_visible": difference.smallest,
                "is_shown": difference.is_shown,
            }))
        };
        measures.iter().filter_map(of).collect::<Vec<_>>()
    };
    others.iter().flat_map(compared).collect()
}

pub fn recommendation(table: &Table, finished: &[&Runs], proof: impl Fn(&Runs) -> String) -> Value {
    let (Some(judged), Some(first)) = (verdict::judged(table), finished.first()) else { return Value::Null };
    let gains: Vec<Gain> =
        finished.iter().map(|runs| verdict::gain(runs, first, &judged, finished.len())).collect();
    let name = |at: &usize| finished.get(*at).map(|runs| runs.arm.name.as_str());
    let by: Vec<&str> =
        std::iter::once(&judged.speed).chain(&judged.memory).map(|measure| measure.name.as_str()).collect();
    match verdict::advice(&gains) {
        Advice::Stay => json!({ "advice": "stay", "by": by }),
        Advice::Trade(trades) => {
            json!({ "advice": "trade", "by": by, "allocators": trades.iter().map(name).collect::<Vec<_>>() })
        }
        Advice::Change(best) => {
            let runs = finished.get(best);
            json!({
                "advice": "change",
                "by": by,
                "allocator": name(&best),
                "environment": runs.map(|runs| runs.arm.environment()),
                "proof": runs.map(|runs| proof(runs)),
            })
        }
    }
}
