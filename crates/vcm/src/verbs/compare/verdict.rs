//! The recommendation. Counts differences that were shown, and nothing else.

use crate::table::{Measure, Runs, Table};
use vcm_measure::paired::Difference;
use vcm_measure::spoken::Better;

/// Nobody changes an allocator for less, whatever is shown.
const LEAST: f64 = 0.01;

/// The chance with which anything at all is recommended among equal arms. It is shared out among the comparisons that
/// are made (Bonferroni), so that many arms do not make one of them look better.
pub const CHANCE: f64 = 0.005;

/// The measures by which an arm is judged.
pub struct Judged {
    pub speed: Measure,
    pub memory: Option<Measure>,
}

impl Judged {
    /// By how many comparisons so many arms are judged.
    fn comparisons(&self, arms: usize) -> usize {
        arms.saturating_sub(1).max(1) * (1 + usize::from(self.memory.is_some()))
    }
}

/// Logarithms of how much better an arm is, 0 where no difference is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    pub speed: f64,
    pub memory: f64,
}

#[derive(Debug, PartialEq)]
pub enum Advice {
    /// The arm at this place of the finished, better in something and worse in nothing.
    Change(usize),
    /// Better in one and worse in the other.
    Trade(Vec<usize>),
    Stay,
}

/// Of the kernel's account, which every trial has: the names by which other readings are known.
const ACCOUNTED: [&str; 13] = [
    "wall time",
    "CPU time",
    "user CPU time",
    "peak RSS",
    "peak PSS",
    "steady RSS",
    "steady PSS",
    "idle RSS",
    "idle PSS",
    "minor faults",
    "major faults",
    "voluntary switches",
    "involuntary switches",
];

/// Counted by a daemon itself: its clients decide how much it does, so the time that each operation costs is its speed.
pub const EACH: &str = "CPU time an operation";
pub const OF_DAEMONS: [&str; 15] = [
    EACH,
    "operations",
    "write latency",
    "read latency",
    "mean latency",
    "bytes written",
    "bytes read",
    "mempools",
    "heap live",
    "heap in caches",
    "heap free and kept",
    "RSS",
    "PSS",
    "greatest RSS",
    "CPU time of the control group",
];

/// Speed is what the program or its load said first, or else processor time; memory is the kernel's peak,
/// because what is looked at now and then is noisier.
pub fn judged(table: &Table) -> Option<Judged> {
    let measures = table.measures();
    let said = |better: Better| {
        let fits = |measure: &&Measure| {
            let name = measure.name.as_str();
            measure.better == better && !ACCOUNTED.contains(&name) && !OF_DAEMONS.contains(&name)
        };
        measures.iter().find(fits).cloned()
    };
    let speed = said(Better::More).or_else(|| said(Better::Less)).or_else(|| table.measure(EACH));
    let speed = speed.or_else(|| table.measure("CPU time"))?;
    let memory = table.measure("peak RSS").or_else(|| table.measure("RSS"));
    Some(Judged { speed, memory })
}

/// The gain of one of so many arms.
pub fn gain(runs: &Runs, from: &Runs, judged: &Judged, arms: usize) -> Gain {
    let chance = CHANCE / judged.comparisons(arms) as f64;
    let of = |measure: &Measure| {
        let Some(difference) = runs.difference(from, measure) else { return 0.0 };
        let log = difference.by.ln_1p();
        counted(&difference, if measure.better == Better::More { log } else { -log }, chance)
    };
    Gain { speed: of(&judged.speed), memory: judged.memory.as_ref().map_or(0.0, of) }
}

/// The part of a difference that counts. A gain has to be surer than a loss: nobody is to be moved by chance.
fn counted(difference: &Difference, gain: f64, chance: f64) -> f64 {
    let is_sure = gain < 0.0 || difference.chance <= chance;
    if difference.is_shown && is_sure && difference.by.abs() >= LEAST { gain } else { 0.0 }
}

/// The gains are those over the first, which itself has none.
pub fn advice(gains: &[Gain]) -> Advice {
    let is_better = |gain: &Gain| gain.speed.min(gain.memory) >= 0.0 && gain.speed + gain.memory > 0.0;
    let better = gains.iter().enumerate().filter(|(_, gain)| is_better(gain));
    let best = better
        .max_by(|(_, one), (_, other)| (one.speed + one.memory).total_cmp(&(other.speed + other.memory)));
    if let Some((best, _)) = best {
        return Advice::Change(best);
    }
    let trades = gains.iter().enumerate().filter(|(_, gain)| gain.speed.max(gain.memory) > 0.0);
    let trades: Vec<usize> = trades.map(|(at, _)| at).collect();
    if trades.is_empty() { Advice::Stay } else { Advice::Trade(trades) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(of: &[(f64, f64)]) -> Vec<Gain> {
        of.iter().map(|(speed, memory)| Gain { speed: *speed, memory: *memory }).collect()
    }

    #[test]
    fn what_is_better_and_in_nothing_worse_is_recommended() {
        assert_eq!(advice(&gains(&[(0.0, 0.0), (0.2, 0.0), (0.1, 0.3), (0.9, -0.1)])), Advice::Change(2));
    }

    #[test]
    fn a_gain_that_costs_something_is_a_trade_and_no_recommendation() {
        assert_eq!(advice(&gains(&[(0.0, 0.0), (0.9, -0.1), (-0.1, 0.0)])), Advice::Trade(vec![1]));
    }

    #[test]
    fn a_gain_must_be_surer_than_a_loss_to_count() {
        let by = |chance, is_shown| Difference {
            rounds: 5,
            by: 0.1,
            interval: None,
            smallest: None,
            chance,
            is_shown,
        };
        for (chance, is_shown, gain, expected) in [
            (0.0001, true, 0.1, 0.1),
            (0.008, true, 0.1, 0.0),
            (0.008, true, -0.1, -0.1),
            (0.0001, false, 0.1, 0.0),
            (0.02, false, -0.1, 0.0),
        ] {
            assert_eq!(counted(&by(chance, is_shown), gain, 0.001), expected, "{chance} {is_shown} {gain}");
        }
        assert_eq!(counted(&Difference { by: 0.001, ..by(0.0, true) }, 0.1, 0.001), 0.0, "too little");
    }

    #[test]
    fn without_a_shown_difference_nothing_is_recommended() {
        assert_eq!(advice(&gains(&[(0.0, 0.0), (0.0, 0.0), (-0.2, 0.0)])), Advice::Stay);
    }
}
