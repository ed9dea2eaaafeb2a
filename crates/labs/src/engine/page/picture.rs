//! The pictures of an experiment, from its rows.
//!
//! A short line across a bar is the report's number; ratios are points with their range.

use super::tables::{limited, of_all, report_of};
use crate::engine::experiment::{Experiment, Picture};
use crate::engine::results::{Results, Row};
use crate::engine::statistics::relative;
use vcm_measure::allocators;
use vcm_measure::statistics::median;
use vcm_report::Colour;
use vcm_report::chart::{Axis, Bar, Chart, Form, Group, Name, Series};

pub struct Drawn {
    pub chart: Chart,
    /// True if a line across a bar shows a report's number.
    pub has_report: bool,
}

/// None if the run has no rows for it; several if there are axes that it does not show.
pub fn draw(experiment: &Experiment, results: &Results, picture: &Picture) -> Vec<Drawn> {
    if let Picture::Only { picture: inner, .. } = picture {
        let some = Results { rows: limited(&results.rows, picture), ..results.clone() };
        return draw(experiment, &some, inner);
    }
    let whole = experiment.measure(measure_of(picture)).is_some_and(|measure| measure.whole);
    let results = if whole { &of_all(results) } else { results };
    let mut drawn = Vec::new();
    for (name, rows) in apart(experiment, results, picture) {
        let some = Results { rows, ..results.clone() };
        if let Some(mut one) = draw_one(experiment, &some, picture) {
            if !name.is_empty() {
                one.chart.title = format!("{}: {name}", one.chart.title);
            }
            drawn.push(one);
        }
    }
    drawn
}

/// The rows of each combination of the axes that the picture does not show, with its name: a median over two
/// object stores would be a number of neither.
fn apart(experiment: &Experiment, results: &Results, picture: &Picture) -> Vec<(String, Vec<Row>)> {
    let shown = axis_of(picture);
    let step = match picture {
        Picture::Lines { step, .. } | Picture::Bars { step, .. } => Some(*step),
        Picture::Ratios { axis, step, .. } if !axis.is_empty() => Some(*step),
        _ => None,
    };
    let rows: Vec<&Row> =
        results.rows.iter().filter(|row| step.is_none_or(|step| row.step == step)).collect();
    let varies = |name: &str| rows.iter().any(|row| row.axes.get(name) != rows[0].axes.get(name));
    let names: Vec<&str> = experiment.axes.iter().map(|axis| axis.name).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| *name != shown && varies(name)).collect();
    let mut all: Vec<(String, Vec<Row>)> = Vec::new();
    for row in rows {
        let values: Vec<String> = names
            .iter()
            .map(|name| format!("{name} {}", row.axes.get(*name).map_or("", String::as_str)))
            .collect();
        let name = values.join(", ");
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row.clone()),
            None => all.push((name, vec![row.clone()])),
        }
    }
    all
}

fn measure_of(picture: &Picture) -> &'static str {
    match picture {
        Picture::Steps { measure, .. }
        | Picture::Lines { measure, .. }
        | Picture::Bars { measure, .. }
        | Picture::Ratios { measure, .. } => measure,
        Picture::Only { picture, .. } => measure_of(picture),
    }
}

/// The axis that a picture shows; none of those that show steps.
fn axis_of(picture: &Picture) -> &'static str {
    match picture {
        Picture::Steps { .. } => "",
        Picture::Lines { axis, .. } | Picture::Bars { axis, .. } | Picture::Ratios { axis, .. } => axis,
        Picture::Only { picture, .. } => axis_of(picture),
    }
}

fn draw_one(experiment: &Experiment, results: &Results, picture: &Picture) -> Option<Drawn> {
    let title = match picture {
        Picture::Steps { title, .. }
        | Picture::Lines { title, .. }
        | Picture::Bars { title, .. }
        | Picture::Ratios { title, .. } => *title,
        Picture::Only { .. } => return None,
    };
    let groups = groups(experiment, results, picture);
    if groups.iter().all(|group| group.bars.iter().all(|bar| bar.value.is_none())) {
        return None;
    }
    let has_report = groups.iter().any(|group| group.bars.iter().any(|bar| bar.report.is_some()));
    let names: Vec<Name> = results.allocators.iter().map(|allocator| named(allocator)).collect();
    let measure = experiment.measure(measure_of(picture));
    let form = form(picture, names, groups, measure.map_or("", |measure| measure.unit));
    let has_report = has_report && matches!(form, Form::Bars { .. });
    Some(Drawn { chart: Chart { title: title.to_owned(), note: String::new(), form }, has_report })
}

/// A name that is no allocator's is that of all of them together.
fn named(allocator: &str) -> Name {
    let (red, green, blue) = allocators::colour_of(allocator);
    Name::new(allocator, Colour(red, green, blue))
}

/// One value of the axis makes no line: dots on the edge of a picture say less than bars.
fn form(picture: &Picture, names: Vec<Name>, groups: Vec<Group>, unit: &str) -> Form {
    match picture {
        Picture::Ratios { .. } => Form::Ratios { names, groups },
        Picture::Lines { axis, .. } if groups.len() > 1 => {
            let place = |group: &Group| group.name.parse().unwrap_or(0.0);
            let series = |(index, name): (usize, Name)| Series {
                name,
                points: groups
                    .iter()
                    .filter_map(|group| Some((place(group), group.bars[index].value?)))
                    .collect(),
                is_area: false,
            };
            Form::Lines {
                series: names.into_iter().enumerate().map(series).collect(),
                across: Axis { name: (*axis).to_owned(), ..Axis::default() },
                up: Axis { unit: unit.to_owned(), ..Axis::default() },
            }
        }
        _ => Form::Bars { names, groups, unit: unit.to_owned() },
    }
}

fn groups(experiment: &Experiment, results: &Results, picture: &Picture) -> Vec<Group> {
    let measure = measure_of(picture);
    let step = match picture {
        Picture::Lines { step, .. } | Picture::Bars { step, .. } | Picture::Ratios { step, .. } => *step,
        Picture::Steps { .. } | Picture::Only { .. } => "",
    };
    let relative = match picture {
        Picture::Ratios { over, .. } => Some(relative(&results.rows, measure, over)),
        _ => None,
    };
    let rows = relative.as_ref().unwrap_or(&results.rows);
    let axis = axis_of(picture);
    let names = match axis {
        "" => experiment.steps.iter().map(|step| step.name.to_owned()).collect(),
        axis => values_of(experiment, axis),
    };
    let of = |row: &Row| match axis {
        "" => row.step.clone(),
        axis if row.step == step => row.axes.get(axis).cloned().unwrap_or_default(),
        _ => String::new(),
    };
    let bar = |name: &String, allocator: &String| {
        let here =
            |row: &&Row| row.allocator == *allocator && of(row) == *name && row.values.contains_key(measure);
        let rows: Vec<&Row> = rows.iter().filter(here).collect();
        let report = rows.first().and_then(|row| report_of(experiment, measure, row));
        let values: Vec<f64> = rows.iter().map(|row| row.values[measure]).collect();
        Bar::of(median(&values), &values, report)
    };
    let group = |name: String| Group {
        bars: results.allocators.iter().map(|allocator| bar(&name, allocator)).collect(),
        name,
    };
    let groups = names.into_iter().map(group);
    groups.filter(|group| group.bars.iter().any(|bar| bar.value.is_some())).collect()
}

/// In the declaration's order.
fn values_of(experiment: &Experiment, axis: &str) -> Vec<String> {
    let declared = experiment.axes.iter().find(|one| one.name == axis);
    let mut values: Vec<String> = Vec::new();
    for value in declared.iter().flat_map(|axis| axis.full.iter().chain(axis.quick)) {
        if !values.iter().any(|known| known == value) {
            values.push(value.to_string());
        }
    }
    values
}
