//! Charts: what is drawn, at which width, and the same numbers as a table.
//!
//! ```text
//! points   two numbers of each name, and the line that nobody beats     axes   marks, names, the legend
//! lines    numbers over time or another number                          bars   bars, ratios, shares: a line each
//! histogram                                                          axis   what an axis and a name are
//! ```

mod axes;
mod axis;
mod bars;
mod histogram;
mod lines;
mod points;

use crate::sheet::{Anchor, Sheet, escaped};
use crate::table::Table;
use std::fmt::Write;

pub use axis::{Axis, Better, Name};
pub use bars::{Bar, Group};
pub use histogram::Bin;
pub use lines::Series;
pub use points::{Extent, Point};

#[derive(Clone, Debug)]
pub struct Chart {
    /// The heading: what is seen.
    pub title: String,
    /// How it is to be read; may be empty.
    pub note: String,
    pub form: Form,
}

#[derive(Clone, Debug)]
pub enum Form {
    Points {
        points: Vec<Point>,
        across: Axis,
        up: Axis,
        extent: Extent,
    },
    Lines {
        series: Vec<Series>,
        across: Axis,
        up: Axis,
    },
    /// A bar for each name in each group. A short line across a bar is somebody else's number.
    Bars {
        names: Vec<Name>,
        groups: Vec<Group>,
        unit: String,
    },
    /// Points around 1, with the range of their values.
    Ratios {
        names: Vec<Name>,
        groups: Vec<Group>,
    },
    Histogram {
        bins: Vec<Bin>,
        across: String,
        up: Axis,
    },
    /// Parts of a whole.
    Shares {
        parts: Vec<(Name, f64)>,
        unit: String,
    },
}

/// Of a drawing, in units that are pixels where it is not scaled.
pub(crate) const WIDE: f64 = 920.0;
pub(crate) const NARROW: f64 = 360.0;

/// One drawing: its elements, and how high it is.
struct Drawn {
    svg: String,
    height: f64,
}

impl Chart {
    /// Both drawings, for a page. `id` tells it from others on the page.
    pub(crate) fn svg(&self, id: usize) -> String {
        let mut text = String::new();
        for (class, width) in [("wide", WIDE), ("narrow", NARROW)] {
            let Drawn { svg, height } = self.draw(width);
            let (title, about) = (escaped(&self.title), escaped(&self.about()));
            let name = format!("chart-{id}-{class}");
            _ = write!(
                text,
                r#"<svg class="{class}" viewBox="0 0 {width} {height:.0}" role="group" aria-labelledby="{name}" aria-describedby="{name}-about"><title id="{name}">{title}</title><desc id="{name}-about">{about}</desc>{svg}</svg>"#,
            );
        }
        text
    }

    fn draw(&self, width: f64) -> Drawn {
        let mut sheet = Sheet::default();
        let height = match &self.form {
            Form::Points { points, across, up, extent } => {
                points::draw(&mut sheet, width, points, [across, up], *extent)
            }
            Form::Lines { series, across, up } => lines::draw(&mut sheet, width, series, [across, up]),
            Form::Bars { names, groups, unit } => bars::bars(&mut sheet, width, names, groups, unit),
            Form::Ratios { names, groups } => bars::ratios(&mut sheet, width, names, groups),
            Form::Histogram { bins, across, up } => histogram::draw(&mut sheet, width, bins, across, up),
            Form::Shares { parts, .. } => bars::shares(&mut sheet, width, parts),
        };
        Drawn { svg: sheet.svg, height }
    }

    /// For who does not see it.
    fn about(&self) -> String {
        let kind = match &self.form {
            Form::Points { points, across, up, .. } => {
                format!("{} points, {} against {}.", points.len(), up.name, across.name)
            }
            Form::Lines { series, across, .. } => format!("{} lines over {}.", series.len(), across.name),
            Form::Bars { groups, .. } | Form::Ratios { groups, .. } => {
                format!("{} groups of bars.", groups.len())
            }
            Form::Histogram { bins, .. } => format!("A histogram of {} bins.", bins.len()),
            Form::Shares { parts, .. } => format!("{} parts of a whole.", parts.len()),
        };
        format!("{kind} The numbers are in the table below it. {}", self.note)
    }

    /// The same numbers.
    pub fn table(&self) -> Table {
        match &self.form {
            Form::Points { points, across, up, .. } => points::table(points, [across, up]),
            Form::Lines { series, across, up } => lines::table(series, [across, up]),
            Form::Bars { names, groups, unit } => bars::table(names, groups, unit),
            Form::Ratios { names, groups } => bars::table(names, groups, "ratio"),
            Form::Histogram { bins, across, up } => histogram::table(bins, across, up),
            Form::Shares { parts, unit } => bars::table_of_shares(parts, unit),
        }
    }
}

/// Charts on one sheet, row by row, as a file of their own: it brings its colours along.
pub fn standing_alone(charts: &[Chart], columns: usize) -> String {
    const TITLE: f64 = 36.0;
    const STYLE: &str = include_str!("../picture.css");
    let columns = columns.clamp(1, charts.len().max(1));
    let (mut body, mut top) = (String::new(), 0.0);
    for row in charts.chunks(columns) {
        let mut highest: f64 = 0.0;
        for (place, chart) in row.iter().enumerate() {
            let left = WIDE * place as f64;
            let below = if chart.title.is_empty() { 0.0 } else { TITLE };
            let drawn = chart.draw(WIDE);
            let mut title = Sheet::default();
            title.text("ink", (12.0, 24.0), Anchor::Start, 17.0, &chart.title);
            _ = write!(
                body,
                r#"<g transform="translate({left} {top})">{}<g transform="translate(0 {below})">{}</g></g>"#,
                title.svg, drawn.svg
            );
            highest = highest.max(below + drawn.height);
        }
        top += highest + 12.0;
    }
    let width = WIDE * columns as f64;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{top:.0}" viewBox="0 0 {width:.0} {top:.0}"><style>{}</style>{body}</svg>"#,
        STYLE.trim()
    ) + "\n"
}
