//! Bars, ratios and shares: a line each, with its name before it and its number behind it, so that no text needs more
//! width than there is.

use super::axis::{Name, TEXT};
use crate::scale::Scale;
use crate::sheet::{Anchor, Area, Sheet, shortened, text_width};
use crate::table::{Cell, Column, Row, Table};
use crate::unit;

#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    /// One for each name of the chart.
    pub bars: Vec<Bar>,
}

#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// The middle of the values; none where there is none.
    pub value: Option<f64>,
    /// Their least and greatest.
    pub range: Option<(f64, f64)>,
    /// Somebody else's number.
    pub report: Option<f64>,
}

const LINE: f64 = 22.0;
const HEAD: f64 = 26.0;

pub fn bars(sheet: &mut Sheet, width: f64, names: &[Name], groups: &[Group], unit: &str) -> f64 {
    let all = groups.iter().flat_map(|group| &group.bars).flat_map(|bar| [bar.value, bar.report]);
    let most = all.flatten().fold(0.0, f64::max);
    let number = |value: f64| short(value, unit);
    let longest = groups.iter().flat_map(|group| &group.bars).filter_map(|bar| bar.value).map(number);
    let room = longest.map(|text| text_width(&text, TEXT)).fold(0.0, f64::max) + 10.0;
    let left = beside(names, width);
    let scale = Scale { least: 0.0, most: if most > 0.0 { most } else { 1.0 }, doubles: false };
    let x = |value: f64| left + scale.place(value) * (width - room - left);
    lines(sheet, width, names, groups, left, |sheet, top, name, bar| {
        let Some(value) = bar.value else { return };
        let area = Area { left, top: top + 3.0, right: x(value).max(left + 1.0), bottom: top + LINE - 3.0 };
        let told = format!("{}: {}", name.name, number(value));
        sheet.told(&told, |sheet| sheet.rectangle(&area, name.colour, ""));
        let mut end = area.right;
        if let Some(report) = bar.report {
            sheet.rule("mark", (x(report), top + 1.0), (x(report), top + LINE - 1.0));
            // The number does not stand on the report's mark.
            let near =
                (area.right - 3.0..area.right + text_width(&number(value), TEXT) + 10.0).contains(&x(report));
            end = if near { x(report) } else { end };
        }
        let end = end.min(width - room);
        sheet.text("ink", (end + 6.0, top + 15.5), Anchor::Start, TEXT, &number(value));
    })
}

/// The axis need not begin at 0, as nothing is read from a length.
pub fn ratios(sheet: &mut Sheet, width: f64, names: &[Name], groups: &[Group]) -> f64 {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let ends = bars().filter_map(|bar| bar.range).flat_map(|(least, most)| [least, most]);
    let all = ends.chain(bars().filter_map(|bar| bar.value)).chain([1.0]);
    let (least, most) =
        all.fold((1.0, 1.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    let span = (most - least).max(0.04);
    let scale = Scale { least: least - span * 0.03, most: most + span * 0.03, doubles: false };
    let (left, room) = (beside(names, width), text_width("0.000", TEXT) + 10.0);
    let x = |value: f64| left + scale.place(value) * (width - room - left);
    let height = lines(sheet, width, names, groups, left, |sheet, top, name, bar| {
        let Some(value) = bar.value else { return };
        let middle = top + LINE / 2.0;
        sheet.rule("one", (x(1.0), top), (x(1.0), top + LINE));
        let range = bar.range.map_or(String::new(), |(least, most)| format!(" ({least:.3} to {most:.3})"));
        sheet.told(&format!("{}: {value:.3}{range}", name.name), |sheet| {
            if let Some((least, most)) = bar.range {
                sheet.path(&[(x(least), middle), (x(most), middle)], name.colour, 2.5, "");
            }
            sheet.shape(0, (x(value), middle), 5.0, name.colour, 1.0);
        });
        sheet.text("ink", (width - room + 6.0, top + 15.5), Anchor::Start, TEXT, &format!("{value:.3}"));
    });
    sheet.text("soft", (x(1.0), height + 12.0), Anchor::Middle, TEXT, "1");
    height + 20.0
}

/// The width that the names take, with the room behind them.
fn beside(names: &[Name], width: f64) -> f64 {
    let longest = names.iter().map(|name| text_width(&name.name, TEXT)).fold(0.0, f64::max);
    (longest + 12.0).min(width * 0.46)
}

/// All groups below each other; the height that they take.
fn lines(
    sheet: &mut Sheet,
    width: f64,
    names: &[Name],
    groups: &[Group],
    left: f64,
    mut draw: impl FnMut(&mut Sheet, f64, &Name, &Bar),
) -> f64 {
    let mut top = 2.0;
    for group in groups {
        if !group.name.is_empty() {
            let name = shortened(&group.name, width, TEXT);
            sheet.text("ink head", (0.0, top + 17.0), Anchor::Start, TEXT, &name);
            top += HEAD;
        }
        for (name, bar) in names.iter().zip(&group.bars) {
            let shown = shortened(&name.name, left - 8.0, TEXT);
            sheet.text("soft", (left - 8.0, top + 15.5), Anchor::End, TEXT, &shown);
            draw(sheet, top, name, bar);
            top += LINE;
        }
        top += 8.0;
    }
    top
}

pub fn shares(sheet: &mut Sheet, width: f64, parts: &[(Name, f64)]) -> f64 {
    const BAR: f64 = 30.0;
    let whole: f64 = parts.iter().map(|(_, value)| value).sum();
    let share = |value: f64| if whole > 0.0 { value / whole } else { 0.0 };
    let (mut left, mut top) = (0.0, BAR + 10.0);
    for (name, value) in parts {
        let right = left + share(*value) * width;
        let said = format!("{}  {}", percent(share(*value)), name.name);
        let area = Area { left, top: 2.0, right, bottom: BAR };
        sheet.told(&said, |sheet| sheet.rectangle(&area, name.colour, ""));
        left = right;
        let key = Area { left: 0.0, top: top + 4.0, right: 13.0, bottom: top + 17.0 };
        sheet.rectangle(&key, name.colour, "");
        sheet.text("ink", (20.0, top + 15.5), Anchor::Start, TEXT, &shortened(&said, width - 20.0, TEXT));
        top += LINE;
    }
    top + 4.0
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn short(value: f64, unit: &str) -> String {
    match unit {
        "B" | "s" | "us" => unit::shown(value, unit),
        _ if value.abs() >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        _ if value.abs() >= 10.0 || value == 0.0 => format!("{value:.0}"),
        _ if value.abs() >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub fn table(names: &[Name], groups: &[Group], unit: &str) -> Table {
    let mut columns = vec![Column::text("of what")];
    columns.extend(names.iter().map(|name| Column::number(&name.name)));
    let cell = |bar: &Bar| match bar.value {
        None => Cell::none(),
        Some(value) => Cell {
            aside: bar.report.map_or(String::new(), |report| format!("[{report}]")),
            below: bar.range.filter(|(least, most)| least < most).map_or(String::new(), |(least, most)| {
                format!("{} to {}", unit::shown(least, unit), unit::shown(most, unit))
            }),
            ..Cell::number(value, unit::shown(value, unit))
        },
    };
    let row = |group: &Group| {
        Row::of(std::iter::once(Cell::text(&group.name)).chain(group.bars.iter().map(cell)).collect())
    };
    Table { title: String::new(), columns, rows: groups.iter().map(row).collect() }
}

pub fn table_of_shares(parts: &[(Name, f64)], unit: &str) -> Table {
    let whole: f64 = parts.iter().map(|(_, value)| value).sum();
    let row = |(name, value): &(Name, f64)| {
        let share = if whole > 0.0 { value / whole } else { 0.0 };
        Row::of(vec![
            Cell::text(&name.name),
            Cell::number(*value, unit::grouped(*value)),
            Cell::number(share, percent(share)),
        ])
    };
    let columns = vec![Column::text("part"), Column::number(unit), Column::number("share")];
    Table { title: String::new(), columns, rows: parts.iter().map(row).collect() }
}

/// Of many values their middle, least and greatest.
impl Bar {
    pub fn of(middle: Option<f64>, values: &[f64], report: Option<f64>) -> Bar {
        let least = values.iter().copied().reduce(f64::min);
        let most = values.iter().copied().reduce(f64::max);
        Bar { value: middle, range: least.zip(most), report }
    }
}
