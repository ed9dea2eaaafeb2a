//! Memory over time as an SVG: a panel for each case, a line for each allocator, the live bytes as a filled
//! area.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

pub struct Series {
    pub name: String,
    /// Seconds and MiB.
    pub points: Vec<(f64, f64)>,
}

pub struct Panel {
    pub title: String,
    pub series: Vec<Series>,
}

/// The series that is the reference for all others.
pub const LIVE: &str = "live bytes";

const PANEL_WIDTH: u32 = 860;
const PANEL_HEIGHT: u32 = 420;

pub fn draw(panels: &[Panel], path: &Path) -> Result<()> {
    let columns = if panels.len() > 1 { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns).max(1);
    let size = (PANEL_WIDTH * columns as u32, PANEL_HEIGHT * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    let draw_all = || -> Result<(), Box<dyn std::error::Error>> {
        root.fill(&WHITE)?;
        for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
            draw_panel(area, panel)?;
        }
        Ok(root.present()?)
    };
    draw_all().map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw_panel(
    area: &DrawingArea<SVGBackend, Shift>,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let left = points().map(|point| point.0).fold(0.0, f64::min);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 70)
        .set_label_area_size(LabelAreaPosition::Bottom, 42)
        // Room for the legend at the right, beside the lines.
        .build_cartesian_2d(left..right + (right - left) * 0.32, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds")
        .y_desc("heap RSS, MiB")
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(("sans-serif", 14))
        .draw()?;
    for series in &panel.series {
        let color = color_of(&series.name);
        let swatch = move |(x, y)| Rectangle::new([(x, y - 2), (x + 16, y + 2)], color.filled());
        if series.name == LIVE {
            let area = AreaSeries::new(series.points.iter().copied(), 0.0, color.mix(0.35));
            chart.draw_series(area)?.label(&series.name).legend(swatch);
        } else {
            let width = if series.name.starts_with("vcmalloc") { 3 } else { 2 };
            let line = LineSeries::new(series.points.iter().copied(), color.stroke_width(width));
            chart.draw_series(line)?.label(&series.name).legend(swatch);
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(TRANSPARENT)
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}

/// Ours stands out; variants of one peer have colors near each other.
fn color_of(name: &str) -> RGBColor {
    match name {
        "vcmalloc" => RGBColor(200, 30, 30),
        "glibc" => RGBColor(40, 40, 40),
        "jemalloc" => RGBColor(40, 90, 180),
        "jemalloc-background" => RGBColor(110, 170, 230),
        "tcmalloc" => RGBColor(30, 140, 70),
        "mimalloc2" => RGBColor(140, 70, 170),
        "mimalloc3-new" => RGBColor(205, 140, 220),
        LIVE => RGBColor(240, 190, 90),
        name if name.starts_with("vcmalloc") => RGBColor(235, 130, 110),
        _ => RGBColor(130, 130, 130),
    }
}
