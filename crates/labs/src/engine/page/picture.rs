//! Pictures: bars and lines as SVG that can be read on light and on dark ground.
//!
//! Text and axes have the colour of the text around them (`currentColor`), allocators a colour of their own
//! that stands out on both. A short line across a bar is the report's number; ratios are points with their
//! range.

use super::tables::{limited, of_all, report_of};
use crate::engine::experiment::{Experiment, Picture};
use crate::engine::results::{Results, Row};
use crate::engine::statistics::{median, range, relative};
use anyhow::{Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 380;

pub struct Drawn {
    pub title: String,
    pub svg: String,
    /// True if a line across a bar shows a report's number.
    pub has_report: bool,
}

/// A group of bars, or a point on the axis.
struct Group {
    name: String,
    /// One for each allocator.
    bars: Vec<Bar>,
}

struct Bar {
    /// Of the repetitions.
    values: Vec<f64>,
    report: Option<f64>,
}

impl Bar {
    fn value(&self) -> Option<f64> {
        median(&self.values)
    }
}

/// None if the run has no rows for it; several if there are axes that it does not show.
pub fn draw(experiment: &Experiment, results: &Results, picture: &Picture) -> Result<Vec<Drawn>> {
    if let Picture::Only { picture: inner, .. } = picture {
        let some = Results { rows: limited(&results.rows, picture), ..results.clone() };
        return draw(experiment, &some, inner);
    }
    let whole = experiment.measure(measure_of(picture)).is_some_and(|measure| measure.whole);
    let results = if whole { &of_all(results) } else { results };
    let mut drawn = Vec::new();
    for (name, rows) in apart(experiment, results, picture) {
        let some = Results { rows, ..results.clone() };
        if let Some(mut one) = draw_one(experiment, &some, picture)? {
            if !name.is_empty() {
                one.title = format!("{}: {name}", one.title);
            }
            drawn.push(one);
        }
    }
    Ok(drawn)
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

fn draw_one(experiment: &Experiment, results: &Results, picture: &Picture) -> Result<Option<Drawn>> {
    let title = match picture {
        Picture::Steps { title, .. }
        | Picture::Lines { title, .. }
        | Picture::Bars { title, .. }
        | Picture::Ratios { title, .. } => *title,
        Picture::Only { .. } => return Ok(None),
    };
    let groups = groups(experiment, results, picture);
    if groups.iter().all(|group| group.bars.iter().all(|bar| bar.values.is_empty())) {
        return Ok(None);
    }
    let has_report = groups.iter().any(|group| group.bars.iter().any(|bar| bar.report.is_some()));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = match picture {
            // One value of the axis makes no line: dots on the edge of a picture say less than bars.
            Picture::Lines { axis, .. } if groups.len() > 1 => lines(&area, results, &groups, axis),
            Picture::Ratios { .. } => dots(&area, results, &groups),
            _ => bars(&area, results, &groups),
        };
        drawn
            .and_then(|()| Ok(area.present()?))
            .map_err(|error| anyhow!("cannot draw '{title}': {error}"))?;
    }
    let svg = svg.replace("\"#000000\"", "\"currentColor\"");
    let is_line = matches!(picture, Picture::Lines { .. }) && groups.len() > 1;
    let bars = !is_line && !matches!(picture, Picture::Ratios { .. });
    Ok(Some(Drawn { title: title.to_owned(), svg, has_report: has_report && bars }))
}

/// The same as a file: it brings the colour of the text along.
pub fn standing_alone(svg: &str) -> String {
    let style = "<style>svg{color:#333}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>";
    match svg.find('>').map(|end| svg.split_at(end + 1)) {
        Some((head, rest)) => format!("{head}\n{style}{rest}"),
        None => svg.to_owned(),
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
        Bar { values: rows.iter().map(|row| row.values[measure]).collect(), report }
    };
    let group = |name: String| Group {
        bars: results.allocators.iter().map(|allocator| bar(&name, allocator)).collect(),
        name,
    };
    let groups = names.into_iter().map(group);
    groups.filter(|group| group.bars.iter().any(|bar| !bar.values.is_empty())).collect()
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

/// Told apart on light and on dark ground; ours is the warm one.
fn colour_of(allocator: &str) -> RGBColor {
    match allocator {
        "vcmalloc" => RGBColor(222, 66, 56),
        "vcmalloc-1M" => RGBColor(226, 124, 170),
        "glibc" => RGBColor(140, 146, 156),
        "jemalloc" => RGBColor(76, 134, 214),
        "tcmalloc" => RGBColor(52, 160, 96),
        "tcmalloc-1M" => RGBColor(150, 190, 60),
        "tcmalloc-128M" => RGBColor(40, 166, 170),
        "mimalloc" => RGBColor(228, 148, 44),
        _ => RGBColor(150, 110, 200),
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawing = Result<(), Box<dyn std::error::Error>>;

fn greatest(groups: &[Group]) -> f64 {
    let all = groups.iter().flat_map(|group| group.bars.iter().flat_map(|bar| [bar.value(), bar.report]));
    all.flatten().fold(f64::MIN_POSITIVE, f64::max)
}

/// The axes of a picture in which each group has one step of the axis below.
fn chart_of_groups<'a>(
    area: &Area<'a>,
    groups: &[Group],
    values: Range<f64>,
    label: &dyn Fn(&f64) -> String,
) -> Result<Chart<'a>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, 30)
        .build_cartesian_2d(0.0..groups.len() as f64, values)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 14))
        .y_label_formatter(label)
        .draw()?;
    Ok(chart)
}

fn bars(area: &Area, results: &Results, groups: &[Group]) -> Drawing {
    let (legend, area) = area.split_vertically(34);
    draw_legend(&legend, results)?;
    let top = greatest(groups) * 1.12;
    let mut chart = chart_of_groups(&area, groups, 0.0..top, &|value| number(*value))?;
    let count = results.allocators.len() as f64;
    let width = 0.84 / count;
    let label = |size: u32| TextStyle::from(("sans-serif", size).into_font());
    for (index, group) in groups.iter().enumerate() {
        for (place, bar) in group.bars.iter().enumerate() {
            let (value, report) = (bar.value(), bar.report);
            let left = index as f64 + 0.08 + place as f64 * width;
            let right = left + width * 0.9;
            if let Some(value) = value {
                let colour = colour_of(&results.allocators[place]);
                chart.draw_series([Rectangle::new([(left, 0.0), (right, value)], colour.filled())])?;
                // Above the report's line, where that is just above the bar.
                let near = report.filter(|report| (value..value + top * 0.05).contains(report));
                let above = (left + width * 0.45, near.unwrap_or(value) + top * 0.008);
                let style = label(11).pos(Pos::new(HPos::Center, VPos::Bottom));
                chart.draw_series([Text::new(number(value), above, style)])?;
            }
            if let Some(report) = report {
                let across = vec![(left, report), (right, report)];
                chart.draw_series([PathElement::new(across, BLACK.stroke_width(2))])?;
            }
        }
    }
    let (origin, end) = (chart.backend_coord(&(0.0, 0.0)), chart.backend_coord(&(1.0, 0.0)));
    names_below(&area, groups, origin.0, end.0)
}

/// The axis knows numbers only; the groups' names are written below it. `origin` and `end` are those of the
/// first.
fn names_below(area: &Area, groups: &[Group], origin: i32, end: i32) -> Drawing {
    for (index, group) in groups.iter().enumerate() {
        let middle = origin + ((end - origin) as f64 * (index as f64 + 0.5)) as i32;
        let style = TextStyle::from(("sans-serif", 15).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw_text(&group.name, &style, (middle, area.dim_in_pixel().1 as i32 - 28))?;
    }
    Ok(())
}

/// Points around 1: the axis need not begin at 0, as nothing is read from a length.
fn dots(area: &Area, results: &Results, groups: &[Group]) -> Drawing {
    let (legend, area) = area.split_vertically(34);
    draw_legend(&legend, results)?;
    let all: Vec<f64> =
        groups.iter().flat_map(|group| group.bars.iter().flat_map(|bar| &bar.values)).copied().collect();
    let (least, most) = range(&all).unwrap_or((1.0, 1.0));
    let room = (most.max(1.0) - least.min(1.0)).max(0.02) * 0.08;
    let values = least.min(1.0) - room..most.max(1.0) + room;
    let mut chart = chart_of_groups(&area, groups, values, &|value| format!("{value:.2}"))?;
    let across = vec![(0.0, 1.0), (groups.len() as f64, 1.0)];
    chart.draw_series([PathElement::new(across, BLACK.mix(0.6).stroke_width(1))])?;
    let width = 0.84 / results.allocators.len() as f64;
    for (index, group) in groups.iter().enumerate() {
        for (place, bar) in group.bars.iter().enumerate() {
            let (Some(value), Some((least, most))) = (bar.value(), range(&bar.values)) else { continue };
            let middle = index as f64 + 0.08 + (place as f64 + 0.5) * width;
            let colour = colour_of(&results.allocators[place]);
            let range = vec![(middle, least), (middle, most)];
            chart.draw_series([PathElement::new(range, colour.stroke_width(2))])?;
            chart.draw_series([Circle::new((middle, value), 5, colour.filled())])?;
        }
    }
    let (origin, end) = (chart.backend_coord(&(0.0, 1.0)), chart.backend_coord(&(1.0, 1.0)));
    names_below(&area, groups, origin.0, end.0)
}

fn lines(area: &Area, results: &Results, groups: &[Group], axis: &str) -> Drawing {
    let (legend, area) = area.split_vertically(34);
    draw_legend(&legend, results)?;
    let places: Vec<f64> = groups.iter().map(|group| group.name.parse().unwrap_or(0.0)).collect();
    let end = places.iter().copied().fold(0.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..end, 0.0..greatest_value(groups) * 1.08)?;
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 14))
        .x_desc(axis)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .draw()?;
    for (index, allocator) in results.allocators.iter().enumerate() {
        let colour = colour_of(allocator);
        let at = |(group, place): (&Group, &f64)| group.bars[index].value().map(|value| (*place, value));
        let points: Vec<(f64, f64)> = groups.iter().zip(&places).filter_map(at).collect();
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
    }
    Ok(())
}

fn greatest_value(groups: &[Group]) -> f64 {
    let all = groups.iter().flat_map(|group| group.bars.iter().filter_map(Bar::value));
    all.fold(f64::MIN_POSITIVE, f64::max)
}

fn draw_legend(area: &Area, results: &Results) -> Drawing {
    let mut left = 64;
    for allocator in &results.allocators {
        let colour = colour_of(allocator);
        area.draw(&Rectangle::new([(left, 10), (left + 14, 24)], colour.filled()))?;
        area.draw_text(allocator, &TextStyle::from(("sans-serif", 15).into_font()), (left + 20, 9))?;
        left += 36 + 8 * allocator.len() as i32;
    }
    Ok(())
}

/// As few digits as tell the difference.
fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
