//! How many of each size, or of each age.

use super::axes::Plot;
use super::axis::{Axis, TEXT};
use crate::colour::Colour;
use crate::scale::Scale;
use crate::sheet::{Anchor, Area, Sheet, text_width};
use crate::table::{Cell, Column, Row, Table};
use crate::unit;

#[derive(Clone, Debug)]
pub struct Bin {
    /// At the axis: short.
    pub label: String,
    pub value: f64,
}

/// Most are counts.
fn shown(value: f64, unit: &str) -> String {
    if unit.is_empty() && value.fract() == 0.0 { unit::grouped(value) } else { unit::shown(value, unit) }
}

pub fn draw(sheet: &mut Sheet, width: f64, bins: &[Bin], across: &str, up: &Axis) -> f64 {
    let height = if width > 600.0 { 300.0 } else { 260.0 };
    let most = bins.iter().map(|bin| bin.value).fold(0.0, f64::max);
    let scale = Scale { least: 0.0, most: bins.len().max(1) as f64, doubles: false };
    let up_scale = Scale::from_zero(most);
    let plot = Plot::without_marks_across(sheet, (width, 0.0, height), (across, scale), (up, up_scale));
    let step = plot.area.width() / bins.len().max(1) as f64;
    let mut free_from = f64::MIN;
    for (at, bin) in bins.iter().enumerate() {
        let left = plot.area.left + step * at as f64;
        // A bin that is not empty must be seen.
        let top =
            if bin.value > 0.0 { plot.y(bin.value).min(plot.area.bottom - 1.0) } else { plot.area.bottom };
        let area =
            Area { left: left + step * 0.06, top, right: left + step * 0.94, bottom: plot.area.bottom };
        let said = format!("{}: {}", bin.label, shown(bin.value, &up.unit));
        sheet.told(&said, |sheet| {
            sheet.hit(&Area { top: plot.area.top, ..area });
            sheet.rectangle(&area, Colour::of_place(0), "");
        });
        let (middle, half) = (left + step / 2.0, text_width(&bin.label, TEXT) / 2.0);
        if middle - half >= free_from && middle + half <= width {
            sheet.text("soft", (middle, plot.area.bottom + 18.0), Anchor::Middle, TEXT, &bin.label);
            free_from = middle + half + 7.0;
        }
    }
    height
}

pub fn table(bins: &[Bin], across: &str, up: &Axis) -> Table {
    let columns = vec![Column::text(across), Column::number(up.with_unit(&up.unit)), Column::number("share")];
    let whole: f64 = bins.iter().map(|bin| bin.value).sum();
    let row = |bin: &Bin| {
        let share = if whole > 0.0 { bin.value / whole } else { 0.0 };
        Row::of(vec![
            Cell::text(&bin.label),
            Cell::number(bin.value, shown(bin.value, &up.unit)),
            Cell::number(share, format!("{:.1} %", share * 100.0)),
        ])
    };
    Table { title: String::new(), columns, rows: bins.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!([0.0, 51.0, 12_345.0].map(|value| shown(value, "")), ["0", "51", "12,345"]);
        assert_eq!((shown(0.5, ""), shown(2048.0, "B")), ("0.500".to_owned(), "2.0 KiB".to_owned()));
    }
}
