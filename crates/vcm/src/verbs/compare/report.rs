//! The report for a reader.

use super::{advice, apply};
use crate::table::Table;
use crate::words::{block, notes};
use std::ffi::OsString;
use vcm_measure::machine::Machine;

/// Told with --all only: they say in other words what is told.
pub const DETAILS: [&str; 6] =
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
        text += "\nEach value is a median. Behind it: the mean of its differences from the first allocator, round by \
         round, which is not\nthe difference of the medians, and the 99 % confidence interval.\nA difference is significant if the interval and a permutation test agree. \
         Brackets: the smallest difference\nfound in 4 of 5 such comparisons. About one line in a hundred is \
         significant by chance.\n";
    }
    for runs in &table.runs {
        if let Some(reason) = &runs.failed {
            text += &format!("\n{} is left out: {reason}\n", runs.arm.name);
        }
    }
    if let Some(advised) = advice::advised(table, |runs| apply::applied(runs, command)) {
        text += &format!("\n{}\n", advised.sentence);
        text += &advised.remarks.iter().map(|remark| format!("  {remark}\n")).collect::<String>();
        if let Some((snippet, proof)) = &advised.change {
            text += &format!("{snippet}  to verify:\n    {proof}\n");
        }
    }
    text
}
