//! The page for a browser.

use super::report;
use super::rounds::Rounds;
use crate::html::compared::Compared;
use crate::html::{self, origin, traced};
use crate::table::{Measure, Table};
use vcm_foreign::Shown;
use vcm_report::chart::{Axis, Better, Chart, Form, Name, Series};
use vcm_report::{Colour, Page, Part};
use vcm_trace::Summary;

const TIME: &str = "time in the allocator";
const PEAK: &str = "peak memory";
/// The measures that the chart of differences shows.
const DIFFERENCES: [&str; 5] = [TIME, PEAK, "mean memory", "memory at the end", "minor faults"];

/// `summary`: of the trace, where it could be read once more.
pub fn page(table: &Table, rounds: &Rounds<'_>, summary: Option<&Summary>, is_stopped: bool) -> Page {
    let compared = Compared::new(table);
    let ranked = report::ranked(&compared.finished, table, rounds);
    let is_ranked = ranked.is_some();
    let mut outcome = ranked.unwrap_or_else(|| vec![report::NO_RANKING.to_owned()]);
    if compared.finished.is_empty() {
        outcome = vec!["No allocator finished a round.".to_owned()];
    }
    if is_stopped {
        outcome.push("Stopped by a signal; these are the finished rounds.".to_owned());
    }
    outcome.extend(rounds.survey.cut_off.iter().map(|why| format!("{why}; the readable part was replayed.")));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut parts = vec![Part::List(lines(&report::remarks(rounds)))];
    // The line of those that no other beats is a ranking.
    let finished = &compared.finished;
    let differs =
        |measure: &Measure| finished.first().is_some_and(|first| report::differs(first, finished, measure));
    if let (true, Some(time), Some(peak)) = (is_ranked, table.measure(TIME), table.measure(PEAK))
        && (differs(&time) || differs(&peak))
    {
        parts.extend(compared.scatter(&time, &peak));
    }
    parts.extend(over_time(table, rounds));
    parts.extend(compared.differences(&DIFFERENCES));
    parts.push(compared.medians("Measurements", |_| true));
    parts.push(Part::Note(
        "Medians, ordered by result; neighbours may not differ significantly. Below each: the mean of its \
         differences from the first allocator, round by round (not the difference of the medians), the 99 % \
         confidence interval, and the smallest difference that would have been found."
            .to_owned(),
    ));
    if let Some(summary) = summary {
        parts.push(Part::Heading("Replayed trace".to_owned()));
        parts.extend(traced::blocks(summary));
    }
    parts.push(compared.every_round());
    parts.extend(compared.stamps());
    parts.extend(origin());
    let file = rounds.file.file_name().unwrap_or_default().shown().printed();
    Page {
        title: format!("{file} on each allocator"),
        about: lines(&report::what(rounds)).join(". "),
        outcome: outcome.join("\n"),
        parts,
    }
}

/// Live bytes and what each allocator held, in the first round.
fn over_time(table: &Table, rounds: &Rounds<'_>) -> Option<Part> {
    let begin = rounds.survey.nanoseconds.0;
    let seconds = |time: u64| time.saturating_sub(begin) as f64 / 1e9;
    let first = rounds.courses.values().next()?;
    let live = first.iter().map(|(time, live, _)| (seconds(*time), *live as f64)).collect();
    let mut series =
        vec![Series { name: Name::new("live bytes", Colour(140, 146, 156)), points: live, is_area: true }];
    for (place, runs) in table.runs.iter().enumerate() {
        let Some(course) = rounds.courses.get(&runs.arm.name) else { continue };
        let points = course.iter().map(|(time, _, memory)| (seconds(*time), *memory)).collect();
        series.push(Series { name: html::name(&runs.arm.name, place), points, is_area: false });
    }
    Some(Part::Chart(Chart {
        title: "Memory over the time of the trace, in the first round".to_owned(),
        note:
            "Memory of each allocator beyond the live bytes. The memory of the replay program is subtracted."
                .to_owned(),
        form: Form::Lines {
            series,
            across: Axis::new("since the trace began", "s", Better::Neither),
            up: Axis::new("memory", "B", Better::Less),
        },
    }))
}
