//! Measures and differences in words, as every comparison tells them.

use crate::table::{Measure, Runs};
use vcm_foreign::Shown;
use vcm_measure::paired::Difference;
use vcm_measure::spoken::Better;
use vcm_measure::statistics::median;
use vcm_report::unit::shown;

/// The largest factor that is written out: a larger one comes of rounds that say nothing.
const MOST: f64 = 1000.0;
pub const TOO_NOISY: &str = "too noisy to compare: add rounds";

/// Whether rounds are so far apart that nothing could be seen.
pub fn is_too_noisy(difference: &Difference) -> bool {
    !difference.is_shown && difference.smallest.is_some_and(|smallest| smallest >= MOST)
}

pub fn block(first: &Runs, others: &[&Runs], measure: &Measure) -> String {
    let direction = if measure.better == Better::More { "more" } else { "less" };
    let unit = if matches!(measure.unit, "" | "B" | "s" | "us") { "" } else { measure.unit };
    let title =
        [unit, direction].iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(", ");
    let heading = format!("{} ({title} is better)", measure.name);
    let mut text = if others.is_empty() {
        format!("\n{heading}\n")
    } else {
        // Above the difference, which is not that of the two medians.
        format!("\n{heading:<45}mean of pairs\n")
    };
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
    if is_too_noisy(difference) {
        return format!("{:>8}  {TOO_NOISY}", percent(difference.by));
    }
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

pub fn percent(share: f64) -> String {
    if share >= MOST {
        return format!("x{MOST:.0} and more");
    }
    let percent = share * 100.0;
    if percent.abs() >= 999.5 { format!("x{:.1}", 1.0 + share) } else { format!("{percent:+.1} %") }
}

pub fn notes(finished: &[&Runs]) -> String {
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
            stamp.file.shown()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_say_nothing_are_called_too_noisy() {
        let measure = Measure { name: "wall time".into(), unit: "s", better: Better::Less };
        let of = |smallest| Difference {
            rounds: 2,
            by: 0.5,
            interval: Some((-0.9, 2000.0)),
            smallest: Some(smallest),
            chance: 1.0,
            is_shown: false,
        };
        assert_eq!(in_words(&of(5000.0), &measure), " +50.0 %  too noisy to compare: add rounds");
        assert!(in_words(&of(2.0), &measure).ends_with("too much to see less than +200.0 %"));
    }

    #[test]
    fn shares_are_percents_until_they_are_multiples() {
        assert_eq!(
            (percent(0.05), percent(-0.5), percent(20.0)),
            ("+5.0 %".into(), "-50.0 %".into(), "x21.0".into())
        );
    }
}
