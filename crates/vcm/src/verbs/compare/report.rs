//! The report for a reader.

use super::apply;
use super::verdict::{self, Advice, Gain, Judged};
use crate::table::{Runs, Table};
use crate::words::{block, notes};
use std::ffi::OsString;
use vcm_measure::machine::Machine;

/// Told with --all only: they say in other words what is told.
const DETAILS: [&str; 6] =
    ["user CPU time", "peak PSS", "steady RSS", "idle RSS", "major faults", "involuntary switches"];

pub fn text(table: &Table, command: &[OsString], all: bool) -> String {
    let finished = table.finished();
    let mut text = String::new();
    if let [first, others @ ..] = finished.as_slice() {
        let rounds = first.trials.len();
        text += &format!("{rounds} rounds of {} allocators on {}\n", finished.len(), Machine::this());
        for measure in
            table.measures().iter().filter(|measure| all || !DETAILS.contains(&measure.name.as_str()))
        {
            text += &block(first, others, measure);
        }
        text += &notes(&finished);
        text += "\nBehind a value is its difference from the first, round by round, and where it lies in 99 of 100 cases. \
                 Shown\nis what that interval and a permutation of the rounds agree on; in brackets the least that would \
                 have been\nseen in 4 of 5 such comparisons. Of a hundred lines about one is shown by chance.\n";
    }
    for runs in &table.runs {
        if let Some(reason) = &runs.failed {
            text += &format!("\n{} is left out: {reason}\n", runs.arm.name);
        }
    }
    if finished.len() > 1 {
        text += &recommended(table, &finished, command);
    }
    text
}

fn recommended(table: &Table, finished: &[&Runs], command: &[OsString]) -> String {
    let (Some(judged), Some(first)) = (verdict::judged(table), finished.first()) else {
        return String::new();
    };
    let gains: Vec<Gain> =
        finished.iter().map(|runs| verdict::gain(runs, first, &judged, finished.len())).collect();
    let name = |at: usize| finished.get(at).map_or("", |runs| runs.arm.name.as_str());
    let by = by_what(&judged);
    match verdict::advice(&gains) {
        Advice::Stay => {
            let first = &first.arm.name;
            format!(
                "\nNo reason to change from {first} is shown, judged by {by}.\n  A single line may well differ by chance: \
                 a recommendation asks for less than {} % of it over all arms.\n  More rounds show smaller differences: --repeat\n",
                verdict::CHANCE * 100.0
            )
        }
        Advice::Trade(trades) => {
            let names: Vec<&str> = trades.into_iter().map(name).collect();
            let names = names.join(", ");
            format!(
                "\nA trade, judged by {by}: {names} gains in one over {} and loses in the other.\n",
                first.arm.name
            )
        }
        Advice::Change(best) => {
            let Some(runs) = finished.get(best) else { return String::new() };
            let mut text = format!("\nRecommended, judged by {by}: {}\n", runs.arm.name);
            let equals: Vec<&str> = (1..finished.len())
                .filter(|at| *at != best && is_level(finished.get(*at), runs, &judged, finished.len()))
                .map(name)
                .collect();
            if !equals.is_empty() {
                text += &format!("  not shown to differ from it in these: {}\n", equals.join(", "));
            }
            text += &apply::snippet(runs);
            text + &format!("  the proof that it took:\n    {}\n", apply::proof(runs, command))
        }
    }
}

/// Whether an arm is not shown to differ from the best.
fn is_level(runs: Option<&&Runs>, best: &Runs, judged: &Judged, arms: usize) -> bool {
    runs.is_some_and(|runs| verdict::gain(runs, best, judged, arms) == Gain::default())
}

fn by_what(judged: &Judged) -> String {
    let memory = judged.memory.as_ref().map_or(String::new(), |memory| format!(" and {}", memory.name));
    format!("{}{memory}", judged.speed.name)
}
