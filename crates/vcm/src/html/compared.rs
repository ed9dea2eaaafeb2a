//! Allocators against each other, as parts of a page.

use super::origin::name;
use crate::table::{Measure, Runs, Table};
use crate::words::{TOO_NOISY, is_too_noisy, percent};
use std::collections::BTreeMap;
use vcm_measure::paired::Difference;
use vcm_measure::spoken;
use vcm_measure::statistics::median;
use vcm_report::chart::{Axis, Bar, Better, Chart, Extent, Form, Group, Name, Point, Series};
use vcm_report::{Cell, Column, Part, Row, Table as Shown, Tone, unit};

pub struct Compared<'a> {
    table: &'a Table,
    pub finished: Vec<&'a Runs>,
    measures: Vec<Measure>,
}

impl<'a> Compared<'a> {
    pub fn new(table: &'a Table) -> Self {
        Compared { table, finished: table.finished(), measures: table.measures() }
    }

    fn name(&self, runs: &Runs) -> Name {
        let place = self.table.runs.iter().position(|other| std::ptr::eq(other, runs));
        name(&runs.arm.name, place.unwrap_or(0))
    }

    /// Speed against memory.
    pub fn scatter(&self, speed: &Measure, memory: &Measure) -> Option<Part> {
        let point = |runs: &&Runs| {
            let (across, up) = (runs.values(speed), runs.values(memory));
            let of = |values: &BTreeMap<usize, f64>| median(&values.values().copied().collect::<Vec<_>>());
            let rounds = across.iter().filter_map(|(round, value)| Some((*value, *up.get(round)?)));
            Some(Point {
                name: self.name(runs),
                across: of(&across)?,
                up: of(&up)?,
                rounds: rounds.filter(|_| across.len() > 1).collect(),
            })
        };
        let points: Vec<Point> = self.finished.iter().filter_map(point).collect();
        if points.len() < 2 {
            return None;
        }
        let form = Form::Points { points, across: axis(speed), up: axis(memory), extent: Extent::Data };
        let title = format!("{} against {}", speed.name, memory.name);
        let note = "Medians; the small points are the rounds. The dashed line connects the allocators that no \
         other beats in both. The table below marks the significant differences.";
        Some(Part::Chart(Chart { title, note: note.to_owned(), form }))
    }

    /// How each differs from the first, with where the difference lies.
    pub fn differences(&self, names: &[&str]) -> Option<Part> {
        let (first, others) = self.finished.split_first()?;
        let group = |measure: &Measure| {
            let bar = |runs: &&Runs| {
                let Some(Difference { by, interval, .. }) = runs.difference(first, measure) else {
                    return Bar::default();
                };
                // A value that no chart can show without making all else invisible is left to the table.
                let range = interval.map(|(low, high)| ((1.0 + low).max(1.0 / 8.0), (1.0 + high).min(8.0)));
                Bar { value: Some(1.0 + by), range, report: None }
            };
            let better = if measure.better == spoken::Better::More { "more" } else { "less" };
            let name = format!("{} ({better} is better)", measure.name);
            Group { name, bars: others.iter().map(bar).collect() }
        };
        let is_named = |measure: &&Measure| names.contains(&measure.name.as_str());
        let groups: Vec<Group> = self.measures.iter().filter(is_named).map(group).collect();
        let has_any = groups.iter().any(|group| group.bars.iter().any(|bar| bar.value.is_some()));
        let names: Vec<Name> = others.iter().map(|runs| self.name(runs)).collect();
        has_any.then(|| {
            Part::Chart(Chart {
                title: format!("Compared with {}, round by round: mean of pairs", first.arm.name),
                note: "1: no difference. The line through each point is the 99 % confidence interval."
                    .to_owned(),
                form: Form::Ratios { names, groups },
            })
        })
    }

    /// Memory over the time of the first round that each finished.
    pub fn over_time(&self) -> Option<Part> {
        let series = |runs: &&Runs| {
            let trial = runs.trials.values().next()?;
            let points: Vec<(f64, f64)> =
                trial.course.iter().map(|(time, memory)| (*time, memory.rss_bytes)).collect();
            (points.len() > 1).then(|| Series { name: self.name(runs), points, is_area: false })
        };
        let series: Vec<Series> = self.finished.iter().filter_map(series).collect();
        (!series.is_empty()).then(|| {
            Part::Chart(Chart {
                title: "Memory over time, in the first round".to_owned(),
                note: "Total RSS of all processes of the run, sampled ten times a second.".to_owned(),
                form: Form::Lines {
                    series,
                    across: Axis::new("since the start", "s", Better::Neither),
                    up: Axis::new("RSS", "B", Better::Less),
                },
            })
        })
    }

    /// The medians, each with its difference from the first.
    pub fn medians(&self, title: &str, fits: impl Fn(&Measure) -> bool) -> Part {
        let measures: Vec<&Measure> = self.measures.iter().filter(|measure| fits(measure)).collect();
        let first = self.finished.first();
        let cell = |runs: &Runs, measure: &Measure| {
            let values: Vec<f64> = runs.values(measure).into_values().collect();
            let Some(value) = median(&values) else { return Cell::none() };
            let own = Cell::number(value, unit::shown(value, measure.unit));
            match first
                .filter(|first| !std::ptr::eq(**first, runs))
                .and_then(|first| runs.difference(first, measure))
            {
                Some(difference) => {
                    Cell { below: below(&difference, measure), tone: tone(&difference, measure), ..own }
                }
                None => own,
            }
        };
        let row = |runs: &&Runs| {
            let name = Cell::text(&runs.arm.name);
            let cells = measures.iter().map(|measure| cell(runs, measure));
            Row { is_marked: runs.arm.is_ours, ..Row::of(std::iter::once(name).chain(cells).collect()) }
        };
        let columns = measures.iter().map(|measure| Column::number(heading(measure)));
        Part::Table(Shown {
            title: title.to_owned(),
            columns: std::iter::once(Column::text("allocator")).chain(columns).collect(),
            rows: self.finished.iter().map(row).collect(),
        })
    }

    /// The values that the medians are of.
    pub fn every_round(&self) -> Part {
        let rounds =
            self.finished.iter().flat_map(|runs| runs.trials.keys()).max().map_or(0, |last| last + 1);
        let row = |(measure, runs): (&Measure, &&Runs)| {
            let values = runs.values(measure);
            let cells = (0..rounds).map(|round| match values.get(&round) {
                Some(value) => Cell::number(*value, unit::shown(*value, measure.unit)),
                None => Cell::none(),
            });
            let names = [Cell::text(heading(measure)), Cell::text(&runs.arm.name)];
            Row::of(names.into_iter().chain(cells).collect())
        };
        let pairs =
            self.measures.iter().flat_map(|measure| self.finished.iter().map(move |runs| (measure, runs)));
        let columns = (1..=rounds).map(|round| Column::number(format!("round {round}")));
        let columns =
            [Column::text("measure"), Column::text("allocator")].into_iter().chain(columns).collect();
        let table = Shown { title: String::new(), columns, rows: pairs.map(row).collect() };
        Part::Folded { head: "Every value of every round".to_owned(), parts: vec![Part::Table(table)] }
    }

    /// The identity of each allocator: for whoever reports on it.
    pub fn stamps(&self) -> Vec<Part> {
        let row = |runs: &&Runs| {
            let stamp = &runs.trials.values().next()?.stamp;
            let or_dash = |text: &Option<String>| Cell::text(text.clone().unwrap_or_else(|| "-".to_owned()));
            let settings: Vec<String> =
                runs.arm.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Some(Row::of(vec![
                Cell::text(&runs.arm.name),
                Cell::text(&stamp.allocator),
                or_dash(&stamp.version),
                Cell::text(&stamp.loaded_by),
                Cell::text(vcm_foreign::Shown::shown(stamp.file.as_path()).to_string()),
                or_dash(&stamp.build_id),
                Cell::text(if settings.is_empty() { "-".to_owned() } else { settings.join(" ") }),
            ]))
        };
        let columns = ["name", "allocator", "version", "how it came", "file", "build-id", "settings"];
        let mut parts = vec![
            Part::Heading("The allocators that took part".to_owned()),
            Part::Table(Shown {
                title: String::new(),
                columns: columns.map(Column::text).to_vec(),
                rows: self.finished.iter().filter_map(row).collect(),
            }),
        ];
        let notes = self.finished.iter().flat_map(|runs| {
            let mut notes: Vec<&String> = runs.trials.values().flat_map(|trial| &trial.notes).collect();
            notes.sort();
            notes.dedup();
            notes.into_iter().map(|note| format!("{}: {note}", runs.arm.name)).collect::<Vec<_>>()
        });
        let failed = self.table.runs.iter().filter_map(|runs| {
            let reason = runs.failed.as_ref()?;
            Some(format!("{} is left out: {reason}", runs.arm.name))
        });
        let lines: Vec<String> = failed.chain(notes).collect();
        if !lines.is_empty() {
            parts.push(Part::List(lines));
        }
        parts
    }
}

/// By how much, where that lies, and what could have been seen.
fn below(difference: &Difference, measure: &Measure) -> String {
    let by = percent(difference.by);
    let (Some((low, high)), Some(smallest)) = (difference.interval, difference.smallest) else {
        return format!("{by}\none round shows nothing");
    };
    if is_too_noisy(difference) {
        return format!("{by}\n{TOO_NOISY}");
    }
    let verdict = match tone(difference, measure) {
        Tone::Plain => "no difference shown",
        Tone::Good => "better",
        Tone::Bad => "worse",
    };
    let seen = percent(smallest);
    format!(
        "{by}, {verdict}\n{} to {}\nseen from {}",
        percent(low),
        percent(high),
        seen.trim_start_matches('+')
    )
}

/// Only of what is shown to differ.
fn tone(difference: &Difference, measure: &Measure) -> Tone {
    match (difference.is_shown, (difference.by > 0.0) == (measure.better == spoken::Better::More)) {
        (false, _) => Tone::Plain,
        (true, true) => Tone::Good,
        (true, false) => Tone::Bad,
    }
}

fn heading(measure: &Measure) -> String {
    match measure.unit {
        "" | "B" | "s" | "us" => measure.name.clone(),
        unit => format!("{}, {unit}", measure.name),
    }
}

fn axis(measure: &Measure) -> Axis {
    let better = if measure.better == spoken::Better::More { Better::More } else { Better::Less };
    Axis::new(measure.name.clone(), measure.unit, better)
}
