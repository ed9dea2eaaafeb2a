//! The results as one picture: the fast path as bars, and time against memory for each thread count.

use super::plan::{Cell, Kind};
use super::summary::{Measure, Summary};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 1300;
const BARS_HEIGHT: u32 = 420;
const SCATTER_HEIGHT: u32 = 480;
const OURS: RGBColor = RGBColor(200, 30, 30);
const GLIBC: RGBColor = RGBColor(40, 40, 40);
const PEER: RGBColor = RGBColor(70, 110, 170);
/// Ratios beyond these are drawn at the edge, so that one outlier does not squeeze the rest together.
const LEAST_RATIO: f64 = 0.5;
const GREATEST_RATIO: f64 = 32.0;

/// One allocator in one scatter.
struct Point {
    allocator: &'static str,
    cost: f64,
    memory: f64,
}

/// Draws what the summary has; no file if it has neither part.
pub fn draw(summary: &Summary, path: &Path) -> Result<bool> {
    let bars = fast_path_bars(summary);
    let scatters = scatters(summary);
    if bars.is_empty() && scatters.is_empty() {
        return Ok(false);
    }
    let bars_height = if bars.is_empty() { 0 } else { BARS_HEIGHT };
    let scatter_rows = scatters.len().div_ceil(2);
    let root = SVGBackend::new(path, (WIDTH, bars_height + scatter_rows as u32 * SCATTER_HEIGHT))
        .into_drawing_area();
    draw_all(&root, bars_height, &bars, &scatters)
        .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    Ok(true)
}

fn draw_all(
    root: &Area,
    bars_height: u32,
    bars: &[(&'static str, f64)],
    scatters: &[(usize, Vec<Point>)],
) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let (top, bottom) = root.split_vertically(bars_height);
    if !bars.is_empty() {
        draw_bars(&top, bars)?;
    }
    let edges = edges(scatters.iter().flat_map(|(_, points)| points));
    let areas = bottom.split_evenly((scatters.len().div_ceil(2).max(1), 2));
    for (area, (threads, points)) in areas.iter().zip(scatters) {
        draw_scatter(area, *threads, points, edges)?;
    }
    root.present()?;
    Ok(())
}

/// Geometric means of the fast path, best first.
fn fast_path_bars(summary: &Summary) -> Vec<(&'static str, f64)> {
    let cells: Vec<&Cell> = summary.cells_of(Kind::FastPath).collect();
    let mean = |&allocator: &&'static str| {
        let (mean, _) = summary.mean_and_worst(cells.iter().copied(), allocator, Measure::Cost)?;
        Some((allocator, mean))
    };
    let mut bars: Vec<_> = summary.allocators.iter().filter_map(mean).collect();
    bars.sort_by(|one, other| one.1.total_cmp(&other.1));
    bars
}

/// For each thread count the allocators that finished all its cells.
fn scatters(summary: &Summary) -> Vec<(usize, Vec<Point>)> {
    let mut counts: Vec<usize> = summary.cells_of(Kind::Load).map(|cell| cell.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let several =
        |threads: &usize| summary.cells_of(Kind::Load).filter(|cell| cell.threads == *threads).count() > 1;
    let points = |threads: usize| {
        let mean = |allocator, measure| {
            let cells = summary.cells_of(Kind::Load).filter(|cell| cell.threads == threads);
            Some(summary.mean_and_worst(cells, allocator, measure)?.0.clamp(LEAST_RATIO, GREATEST_RATIO))
        };
        let point = |&allocator: &&'static str| {
            let (cost, memory) = (mean(allocator, Measure::Cost)?, mean(allocator, Measure::PeakRss)?);
            Some(Point { allocator, cost, memory })
        };
        summary.allocators.iter().filter_map(point).collect()
    };
    counts.into_iter().filter(several).map(|threads| (threads, points(threads))).collect()
}

fn color_of(allocator: &str) -> RGBColor {
    match allocator {
        name if name.starts_with("vcmalloc") => OURS,
        "glibc" => GLIBC,
        _ => PEER,
    }
}

fn draw_bars(area: &Area, bars: &[(&'static str, f64)]) -> Result<(), Box<dyn std::error::Error>> {
    let greatest = bars.last().map_or(1.0, |bar| bar.1);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "Fast path: time per malloc and free, geometric mean of ratios to the best peer",
            ("sans-serif", 22),
        )
        .margin(15)
        .set_label_area_size(LabelAreaPosition::Left, 130)
        .set_label_area_size(LabelAreaPosition::Bottom, 35)
        .build_cartesian_2d(0.0..greatest * 1.1, (0..bars.len()).into_segmented())?;
    let name = |segment: &SegmentValue<usize>| match segment {
        // The axis also asks for one beyond the last.
        SegmentValue::CenterOf(index) => {
            bars.iter().rev().nth(*index).map_or_else(String::new, |bar| bar.0.to_owned())
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .y_labels(bars.len())
        .y_label_formatter(&name)
        .label_style(("sans-serif", 16))
        .draw()?;
    for (index, (allocator, mean)) in bars.iter().rev().enumerate() {
        let corners = [(0.0, SegmentValue::Exact(index)), (*mean, SegmentValue::Exact(index + 1))];
        let mut bar = Rectangle::new(corners, color_of(allocator).mix(0.8).filled());
        bar.set_margin(3, 3, 0, 0);
        chart.draw_series([bar])?;
        let place = (*mean + greatest * 0.005, SegmentValue::CenterOf(index));
        let style =
            TextStyle::from(("sans-serif", 15).into_font()).pos(plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Left,
                plotters::style::text_anchor::VPos::Center,
            ));
        chart.draw_series([Text::new(format!("{mean:.2}"), place, style)])?;
    }
    Ok(())
}

/// The greatest cost and memory on the axes: the same in all scatters, so that they can be compared.
fn edges<'a>(points: impl Iterator<Item = &'a Point>) -> (f64, f64) {
    points.fold((2.0, 2.0), |(cost, memory), point| (point.cost.max(cost), point.memory.max(memory)))
}

fn draw_scatter(
    area: &Area,
    threads: usize,
    points: &[Point],
    (cost_edge, memory_edge): (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let noun = if threads == 1 { "thread" } else { "threads" };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{threads} {noun}: 1 is the best peer, lower left is better"), ("sans-serif", 20))
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 60)
        .set_label_area_size(LabelAreaPosition::Bottom, 45)
        .build_cartesian_2d(
            (LEAST_RATIO..cost_edge * 1.8).log_scale().base(2.0),
            (LEAST_RATIO..memory_edge * 1.1).log_scale().base(2.0),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("CPU time per operation")
        .y_desc("peak RSS")
        .label_style(("sans-serif", 15))
        .draw()?;
    for point in points {
        let place = (point.cost, point.memory);
        let color = color_of(point.allocator);
        chart.draw_series([Circle::new(place, 5, color.filled())])?;
    }
    for (point, lift) in points.iter().zip(lifts(points, memory_edge)) {
        let color = color_of(point.allocator);
        let style = TextStyle::from(("sans-serif", 14).into_font()).color(&color);
        let label =
            EmptyElement::at((point.cost, point.memory)) + Text::new(point.allocator, (8, -7 + lift), style);
        chart.draw_series([label])?;
    }
    Ok(())
}

/// How many pixels each label moves so that those of close points do not lie on each other: from the top
/// down, each at least a line below the one before if they are near in both directions.
fn lifts(points: &[Point], memory_edge: f64) -> Vec<i32> {
    const LINE: f64 = 14.0;
    let doubling = f64::from(SCATTER_HEIGHT - 110) / (memory_edge * 1.1 / LEAST_RATIO).log2();
    let height = |point: &Point| -point.memory.log2() * doubling;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&one, &other| height(&points[one]).total_cmp(&height(&points[other])));
    let mut placed: Vec<(usize, f64)> = Vec::new();
    for index in order {
        let near = |other: usize| (points[other].cost / points[index].cost).log2().abs() < 0.8;
        let lowest_near = placed.iter().filter(|(other, _)| near(*other)).map(|(_, y)| y + LINE);
        let y = lowest_near.fold(height(&points[index]), f64::max);
        placed.push((index, y));
    }
    let mut lifts = vec![0; points.len()];
    placed.iter().for_each(|&(index, y)| lifts[index] = (y - height(&points[index])) as i32);
    lifts
}
