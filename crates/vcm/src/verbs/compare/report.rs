//! The report for a reader.

use super::apply;
use super::table::{Measure, Runs, Table};
use super::verdict::{self, Advice, Gain, Judged};
use std::ffi::OsString;
use vcm_measure::machine::Machine;
use vcm_measure::paired::Difference;
use vcm_measure::spoken::Better;
use vcm_measure::statistics::median;

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

fn block(first: &Runs, others: &[&Runs], measure: &Measure) -> String {
    let direction = if measure.better == Better::More { "more" } else { "less" };
    let unit = if matches!(measure.unit, "" | "B" | "s" | "us") { "" } else { measure.unit };
    let title =
        [unit, direction].iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(", ");
    let mut text = format!("\n{} ({title} is better)\n", measure.name);
    for runs in std::iter::once(first).chain(others.iter().copied()) {
        let values: Vec<f64> = runs.values(measure).into_values().collect();
        let value = median(&values).map_or_else(|| "-".to_owned(), |value| shown(value, measure.unit));
        let difference = if std::ptr::eq(runs, first) { None } else { runs.difference(first, measure) };
        let difference = difference.map_or(String::new(), |difference| in_words(&difference, measure));
        text += format!("  {:<28} {value:>12}  {difference}", runs.arm.name).trim_end();
        text.push('\n');
    }
    text
}

fn in_words(difference: &Difference, measure: &Measure) -> String {
    let (Some((low, high)), Some(smallest)) = (difference.interval, difference.smallest) else {
        return format!("{} (one round shows nothing)", percent(difference.by));
    };
    if !difference.is_shown && smallest > 1.0 {
        let (by, least) = (percent(difference.by), percent(smallest));
        return format!("{by:>8}  no difference shown; the rounds differ too much to see less than {least}");
    }
    let is_better = (difference.by > 0.0) == (measure.better == Better::More);
    let verdict = match (difference.is_shown, is_better) {
        (false, _) => "no difference shown",
        (true, true) => "better",
        (true, false) => "worse",
    };
    let (low, high) = (percent(low), percent(high));
    format!(
        "{:>8}  {low} to {high}  {verdict} [{}]",
        percent(difference.by),
        percent(smallest).trim_start_matches('+')
    )
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 999.5 { format!("x{:.1}", 1.0 + share) } else { format!("{percent:+.1} %") }
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "B" if value >= f64::from(1 << 30) => format!("{:.2} GiB", value / f64::from(1 << 30)),
        "B" => format!("{:.1} MiB", value / f64::from(1 << 20)),
        "us" if value >= 1e4 => format!("{:.1} ms", value / 1e3),
        "us" => format!("{value:.1} us"),
        "s" => format!("{value:.3} s"),
        _ if value >= 100.0 => grouped(value.round() as u64),
        _ => format!("{value:.3}"),
    }
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn notes(finished: &[&Runs]) -> String {
    let mut text = String::from("\nRan on\n");
    for runs in finished {
        let Some(trial) = runs.trials.values().next() else { continue };
        let stamp = &trial.stamp;
        let version = stamp.version.as_deref().unwrap_or("of unknown version");
        text += &format!(
            "  {:<28} {} {version}, {}, {}\n",
            runs.arm.name,
            stamp.allocator,
            stamp.loaded_by,
            stamp.file.display()
        );
        let mut notes: Vec<&String> = runs.trials.values().flat_map(|trial| &trial.notes).collect();
        notes.sort();
        notes.dedup();
        for note in notes.iter().take(3) {
            text += &format!("    note: {note}\n");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_that_fit() {
        assert_eq!(shown(1_234_567.0, "ops/s"), "1,234,567");
        assert_eq!(shown(1.5 * f64::from(1 << 20), "B"), "1.5 MiB");
        assert_eq!(shown(12_345.0, "us"), "12.3 ms");
        assert_eq!(
            (percent(0.05), percent(-0.5), percent(20.0)),
            ("+5.0 %".into(), "-50.0 %".into(), "x21.0".into())
        );
    }
}
