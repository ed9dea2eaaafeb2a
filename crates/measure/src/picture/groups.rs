//! Groups of bars and of points.

use super::{Area, Drawing, colour_of, number, text};
use crate::statistics::{median, range};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

pub struct Group {
    pub name: String,
    /// One for each name of the panel.
    pub bars: Vec<Bar>,
}

pub struct Bar {
    /// Of the repetitions; the bar is their median.
    pub values: Vec<f64>,
    /// Somebody else's number.
    pub report: Option<f64>,
}

impl Bar {
    pub fn value(&self) -> Option<f64> {
        median(&self.values)
    }
}

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

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

pub(super) fn bars(area: &Area, names: &[String], groups: &[Group]) -> Drawing {
    let all = groups.iter().flat_map(|group| group.bars.iter().flat_map(|bar| [bar.value(), bar.report]));
    let top = all.flatten().fold(f64::MIN_POSITIVE, f64::max) * 1.12;
    let mut chart = chart_of_groups(area, groups, 0.0..top, &|value| number(*value))?;
    let width = 0.84 / names.len() as f64;
    for (index, group) in groups.iter().enumerate() {
        for (place, bar) in group.bars.iter().enumerate() {
            let (value, report) = (bar.value(), bar.report);
            let left = index as f64 + 0.08 + place as f64 * width;
            let right = left + width * 0.9;
            if let Some(value) = value {
                let colour = colour_of(&names[place]);
                chart.draw_series([Rectangle::new([(left, 0.0), (right, value)], colour.filled())])?;
                // Above the report's line, where that is just above the bar.
                let near = report.filter(|report| (value..value + top * 0.05).contains(report));
                let above = (left + width * 0.45, near.unwrap_or(value) + top * 0.008);
                let style = text(11).pos(Pos::new(HPos::Center, VPos::Bottom));
                chart.draw_series([Text::new(number(value), above, style)])?;
            }
            if let Some(report) = report {
                let across = vec![(left, report), (right, report)];
                chart.draw_series([PathElement::new(across, BLACK.stroke_width(2))])?;
            }
        }
    }
    let (origin, end) = (chart.backend_coord(&(0.0, 0.0)), chart.backend_coord(&(1.0, 0.0)));
    names_below(area, groups, origin.0, end.0)
}

/// The axis knows numbers only; the groups' names are written below it. `origin` and `end` are those of the
/// first, on the whole sheet.
fn names_below(area: &Area, groups: &[Group], origin: i32, end: i32) -> Drawing {
    let left = area.get_pixel_range().0.start;
    for (index, group) in groups.iter().enumerate() {
        let middle = origin - left + ((end - origin) as f64 * (index as f64 + 0.5)) as i32;
        let style = text(15).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw_text(&group.name, &style, (middle, area.dim_in_pixel().1 as i32 - 28))?;
    }
    Ok(())
}

/// The axis need not begin at 0, as nothing is read from a length.
pub(super) fn ratios(area: &Area, names: &[String], groups: &[Group]) -> Drawing {
    let all: Vec<f64> =
        groups.iter().flat_map(|group| group.bars.iter().flat_map(|bar| &bar.values)).copied().collect();
    let (least, most) = range(&all).unwrap_or((1.0, 1.0));
    let room = (most.max(1.0) - least.min(1.0)).max(0.02) * 0.08;
    let values = least.min(1.0) - room..most.max(1.0) + room;
    let mut chart = chart_of_groups(area, groups, values, &|value| format!("{value:.2}"))?;
    let across = vec![(0.0, 1.0), (groups.len() as f64, 1.0)];
    chart.draw_series([PathElement::new(across, BLACK.mix(0.6).stroke_width(1))])?;
    let width = 0.84 / names.len() as f64;
    for (index, group) in groups.iter().enumerate() {
        for (place, bar) in group.bars.iter().enumerate() {
            let (Some(value), Some((least, most))) = (bar.value(), range(&bar.values)) else { continue };
            let middle = index as f64 + 0.08 + (place as f64 + 0.5) * width;
            let colour = colour_of(&names[place]);
            let range = vec![(middle, least), (middle, most)];
            chart.draw_series([PathElement::new(range, colour.stroke_width(2))])?;
            chart.draw_series([Circle::new((middle, value), 5, colour.filled())])?;
        }
    }
    let (origin, end) = (chart.backend_coord(&(0.0, 1.0)), chart.backend_coord(&(1.0, 1.0)));
    names_below(area, groups, origin.0, end.0)
}
