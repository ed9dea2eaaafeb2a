//! Pictures as SVG that can be read on light and on dark ground: one panel, or several on a sheet.
//!
//! Text and axes have the colour of the text around them (`currentColor`), allocators the colour of their declaration.

mod curves;
mod groups;

use crate::allocators;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

pub use curves::{Point, Series};
pub use groups::{Bar, Group};

pub struct Panel {
    /// Above it; empty where the page has it.
    pub title: String,
    /// The legend, and whose bar is where in a group.
    pub names: Vec<String>,
    pub form: Form,
}

pub enum Form {
    /// A bar for each name in each group. A short line across a bar is somebody else's number.
    Bars(Vec<Group>),
    /// Points around 1, with the range of their values.
    Ratios(Vec<Group>),
    /// Lines over an axis of numbers.
    Lines { series: Vec<Series>, across: String, up: String },
    /// Two numbers of each name as ratios on logarithmic axes, with the name beside the point. `least` and `most` are the
    /// edges of both axes: the same on all panels that are to be compared.
    Points { points: Vec<Point>, across: String, up: String, least: f64, most: (f64, f64) },
}

pub const WIDTH: u32 = 960;
pub const HEIGHT: u32 = 380;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawing = Result<(), Box<dyn std::error::Error>>;

/// The panels on one sheet, row by row.
pub fn svg(panels: &[Panel], columns: usize) -> Result<String> {
    let columns = columns.min(panels.len()).max(1);
    let rows = panels.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    {
        let size = (WIDTH * columns as u32, HEIGHT * rows as u32);
        let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let draw_all = || -> Drawing {
            let areas = sheet.split_evenly((rows, columns));
            areas.iter().zip(panels).try_for_each(|(area, panel)| draw(area, panel))?;
            Ok(sheet.present()?)
        };
        let titles = || panels.iter().map(|panel| panel.title.as_str()).collect::<Vec<_>>().join(", ");
        draw_all().map_err(|error| anyhow!("cannot draw '{}': {error}", titles()))?;
    }
    Ok(svg.replace("\"#000000\"", "\"currentColor\""))
}

/// The same as a file: it brings the colour of the text along.
pub fn standing_alone(svg: &str) -> String {
    let style = "<style>svg{color:#333}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>";
    match svg.find('>').map(|end| svg.split_at(end + 1)) {
        Some((head, rest)) => format!("{head}\n{style}{rest}"),
        None => svg.to_owned(),
    }
}

fn draw(area: &Area, panel: &Panel) -> Drawing {
    let mut area = area.clone();
    if !panel.title.is_empty() {
        let (title, below) = area.split_vertically(32);
        title.draw_text(&panel.title, &text(18), (16, 8))?;
        area = below;
    }
    let area = legend(&area, &panel.names)?;
    match &panel.form {
        Form::Bars(all) => groups::bars(&area, &panel.names, all),
        Form::Ratios(all) => groups::ratios(&area, &panel.names, all),
        Form::Lines { series, across, up } => curves::lines(&area, series, across, up),
        Form::Points { points, across, up, least, most } => {
            curves::points(&area, points, [across, up], *least, *most)
        }
    }
}

/// A square and a name each, in as many lines as they take. Gives what is left of the area.
fn legend<'a>(area: &Area<'a>, names: &[String]) -> Result<Area<'a>, Box<dyn std::error::Error>> {
    const LEFT: i32 = 64;
    const LINE: i32 = 24;
    if names.is_empty() {
        return Ok(area.clone());
    }
    let right = area.dim_in_pixel().0 as i32;
    let (mut left, mut top) = (LEFT, 10);
    for name in names {
        let width = 36 + 8 * name.len() as i32;
        if left > LEFT && left + width > right {
            (left, top) = (LEFT, top + LINE);
        }
        area.draw(&Rectangle::new([(left, top), (left + 14, top + 14)], colour_of(name).filled()))?;
        area.draw_text(name, &text(15), (left + 20, top - 1))?;
        left += width;
    }
    Ok(area.split_vertically(top + LINE).1)
}

fn text(size: u32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font())
}

fn colour_of(name: &str) -> RGBColor {
    const OTHERS: (u8, u8, u8) = (150, 110, 200);
    let (red, green, blue) = allocators::known(name).map_or(OTHERS, |known| known.colour);
    RGBColor(red, green, blue)
}

/// As few digits as tell the difference.
fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value >= 10.0 || value <= -10.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(names: &[&str]) -> Panel {
        let bar = |(index, _)| Bar { values: vec![index as f64 + 1.0], report: None };
        let group = Group { name: "time".to_owned(), bars: names.iter().enumerate().map(bar).collect() };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Panel { title: "Costs".to_owned(), names, form: Form::Bars(vec![group]) }
    }

    #[test]
    fn a_sheet_has_all_panels_and_each_allocator_its_colour() {
        let svg = svg(&[bars(&["vcmalloc", "glibc"]), bars(&["vcmalloc"])], 2).unwrap();
        assert!(svg.contains("width=\"1920\" height=\"380\""), "{svg}");
        // Two bars and two squares of the legend.
        assert_eq!(svg.matches("#DE4238").count(), 4, "{svg}");
        assert!(svg.contains("currentColor") && !svg.contains("#000000"));
        assert!(standing_alone(&svg).contains("prefers-color-scheme"));
    }

    #[test]
    fn a_legend_that_is_too_long_for_a_line_goes_on_in_the_next() {
        let names: Vec<&str> = allocators::ALLOCATORS.iter().map(|allocator| allocator.name).collect();
        let svg = svg(&[bars(&names)], 1).unwrap();
        let right =
            |line: &str| -> Option<f64> { line.split_once(" x=\"")?.1.split('"').next()?.parse().ok() };
        assert!(svg.lines().filter_map(right).all(|x| x < f64::from(WIDTH)), "{svg}");
        assert!(names.iter().all(|name| svg.contains(&format!("\n{name}\n"))), "{svg}");
    }
}
