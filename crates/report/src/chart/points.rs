//! Two numbers of each name: a point each, small ones for its rounds, its name beside it, and the line of those that no
//! other beats in both.

use super::axes::Plot;
use super::axis::{Axis, Better, Name, TEXT};
use crate::scale::Scale;
use crate::sheet::{Anchor, Area, Sheet, text_area, text_width};
use crate::table::{Cell, Column, Row, Table};
use crate::unit;

#[derive(Clone, Debug)]
pub struct Point {
    pub name: Name,
    pub across: f64,
    pub up: f64,
    /// The points that it is the middle of; may be empty.
    pub rounds: Vec<(f64, f64)>,
}

/// How far the axes of points reach.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// As far as the points do.
    Data,
    /// By doublings, from one number on both axes to one on each: the same on all charts that are to be compared.
    Doublings { least: f64, most: (f64, f64) },
}

const SIZE: f64 = 6.0;

pub fn draw(sheet: &mut Sheet, width: f64, points: &[Point], axes: [&Axis; 2], extent: Extent) -> f64 {
    let height = if width > 600.0 { 400.0 } else { 340.0 };
    let all = |of: fn(&(f64, f64)) -> f64| {
        points.iter().flat_map(move |point| {
            std::iter::once((point.across, point.up))
                .chain(point.rounds.iter().copied())
                .map(move |pair| of(&pair))
        })
    };
    let scales = match extent {
        Extent::Data => [Scale::around(all(|pair| pair.0)), Scale::around(all(|pair| pair.1))],
        Extent::Doublings { least, most } => {
            [most.0, most.1].map(|most| Scale { least, most: most * 1.1, doubles: true })
        }
    };
    let [across, up] = axes;
    let plot = Plot::with_axes(sheet, (width, 0.0, height), (across, scales[0]), (up, scales[1]));
    let at = |pair: (f64, f64)| (plot.x(pair.0), plot.y(pair.1));
    let front = front(points, axes);
    if let (Some(_), false) = (front.get(1), [across, up].iter().any(|axis| axis.better == Better::Neither)) {
        let corners: Vec<(f64, f64)> = staircase(&front, axes).into_iter().map(at).collect();
        sheet.pareto(&corners);
    }
    for (kind, point) in points.iter().enumerate() {
        for round in &point.rounds {
            sheet.shape(kind, at(*round), SIZE / 2.0, point.name.colour, 0.5);
        }
    }
    let mut taken: Vec<Area> =
        points.iter().map(|point| around(at((point.across, point.up)), SIZE + 1.0)).collect();
    for (kind, point) in points.iter().enumerate() {
        let place = at((point.across, point.up));
        sheet.told(&said(point, axes), |sheet| sheet.shape(kind, place, SIZE, point.name.colour, 1.0));
        label(sheet, &plot.area, place, &point.name.name, &mut taken);
    }
    height
}

fn around((x, y): (f64, f64), reach: f64) -> Area {
    Area { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
}

fn said(point: &Point, [across, up]: [&Axis; 2]) -> String {
    format!(
        "{}: {} {}, {} {}",
        point.name.name,
        across.name,
        with_unit(point.across, across),
        up.name,
        with_unit(point.up, up)
    )
}

fn with_unit(value: f64, axis: &Axis) -> String {
    let text = unit::shown(value, &axis.unit);
    if matches!(axis.unit.as_str(), "" | "B" | "s" | "us") { text } else { format!("{text} {}", axis.unit) }
}

/// Beside its point where nothing stands yet, with a thread to it where that is far.
fn label(sheet: &mut Sheet, area: &Area, (x, y): (f64, f64), name: &str, taken: &mut Vec<Area>) {
    let room =
        Area { top: area.top - 12.0, bottom: area.bottom - 2.0, left: area.left, right: area.right + 14.0 };
    let width = text_width(name, TEXT);
    // Inside, however long it is.
    let inside = (x - width / 2.0).min(room.right - width).max(room.left);
    let at = |left: f64, down: f64| (left, y + 4.5 + down);
    let near = [at(x + 11.0, 0.0), at(x - 11.0 - width, 0.0), at(inside, -16.0), at(inside, 17.0)];
    let down = (1..40).flat_map(|step| [-1.0, 1.0].map(|side| side * f64::from(step) * 8.0));
    let further = down.flat_map(|down| {
        [at(x + 11.0, down), at(x - 11.0 - width, down), at(inside, down + 16.0_f64.copysign(down))]
    });
    let fits = |(x, y): &(f64, f64)| {
        let own = text_area(*x, *y, Anchor::Start, TEXT, name);
        room.holds(&own) && !taken.iter().any(|other| other.meets(&own))
    };
    let (left, base) = near.into_iter().chain(further).find(fits).unwrap_or(at(inside, 0.0));
    taken.push(text_area(left, base, Anchor::Start, TEXT, name));
    if (base - 4.5 - y).abs() > 20.0 {
        let end = x.clamp(left, left + width);
        let side = if base < y { base + 4.0 } else { base - 12.0 };
        sheet.rule("thread", (x, y), (end, side));
    }
    sheet.text("ink haloed", (left, base), Anchor::Start, TEXT, name);
}

/// The points that no other beats in both, from the left to the right.
fn front<'a>(points: &'a [Point], axes: [&Axis; 2]) -> Vec<&'a Point> {
    let values = |point: &Point| [signed(point.across, axes[0]), signed(point.up, axes[1])];
    let is_beaten = |point: &&Point| {
        points.iter().any(|other| {
            let ([own_x, own_y], [x, y]) = (values(point), values(other));
            x >= own_x && y >= own_y && (x > own_x || y > own_y)
        })
    };
    let mut front: Vec<&Point> = points.iter().filter(|point| !is_beaten(point)).collect();
    front.sort_by(|one, other| one.across.total_cmp(&other.across));
    front
}

/// More is better.
fn signed(value: f64, axis: &Axis) -> f64 {
    if axis.better == Better::Less { -value } else { value }
}

/// Between two neighbours it goes by the corner that both beat: nothing lies between two allocators.
fn staircase(front: &[&Point], axes: [&Axis; 2]) -> Vec<(f64, f64)> {
    let mut corners = Vec::new();
    let worse = |one: f64, other: f64, axis: &Axis| {
        if axis.better == Better::Less { one.max(other) } else { one.min(other) }
    };
    for pair in front.windows(2) {
        let [one, other] = pair else { continue };
        corners.push((one.across, one.up));
        corners.push((worse(one.across, other.across, axes[0]), worse(one.up, other.up, axes[1])));
    }
    corners.extend(front.last().map(|last| (last.across, last.up)));
    corners
}

pub fn table(points: &[Point], axes: [&Axis; 2]) -> Table {
    let [across, up] = axes;
    let mut columns = vec![Column::text("name")];
    columns.extend([across, up].map(|axis| Column::number(axis.name.clone())));
    columns.push(Column::text("on the line"));
    let front = front(points, axes);
    let row = |point: &Point| {
        let is_front = front.iter().any(|other| std::ptr::eq(*other, point));
        Row::of(vec![
            Cell::text(&point.name.name),
            Cell::number(point.across, with_unit(point.across, across)),
            Cell::number(point.up, with_unit(point.up, up)),
            Cell::text(if is_front { "yes" } else { "no" }),
        ])
    };
    Table { title: String::new(), columns, rows: points.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::Colour;

    fn point(name: &str, across: f64, up: f64) -> Point {
        let name = Name { name: name.into(), colour: Colour::of_place(0) };
        Point { name, across, up, rounds: Vec::new() }
    }

    fn axes() -> [Axis; 2] {
        [Axis::new("speed", "ops/s", Better::More), Axis::new("peak", "B", Better::Less)]
    }

    #[test]
    fn the_line_has_those_that_nobody_beats_in_both_and_goes_by_the_corners_between() {
        let points = [
            point("fast", 10.0, 9.0),
            point("beaten", 9.0, 10.0),
            point("small", 5.0, 2.0),
            point("slow as small, larger", 5.0, 3.0),
        ];
        let [across, up] = &axes();
        let front = front(&points, [across, up]);
        let names: Vec<&str> = front.iter().map(|point| point.name.name.as_str()).collect();
        assert_eq!(names, ["small", "fast"]);
        assert_eq!(staircase(&front, [across, up]), [(5.0, 2.0), (5.0, 9.0), (10.0, 9.0)]);
    }

    #[test]
    fn names_of_points_on_one_place_do_not_lie_on_each_other_at_any_width() {
        let points: Vec<Point> = (0..8)
            .map(|at| point(&format!("vcmalloc cache_limit={at}6M"), 1.0 + f64::from(at % 2) * 0.001, 1.0))
            .collect();
        let [across, up] = &axes();
        for width in [super::super::WIDE, super::super::NARROW] {
            let mut sheet = Sheet::default();
            draw(&mut sheet, width, &points, [across, up], Extent::Data);
            let places: Vec<Area> = sheet
                .svg
                .split("<text class=\"ink haloed\"")
                .skip(1)
                .map(|text| {
                    let number = |name: &str| -> f64 {
                        let from = text.find(name).unwrap() + name.len();
                        text[from..].split('"').next().unwrap().parse().unwrap()
                    };
                    text_area(
                        number(" x=\""),
                        number(" y=\""),
                        Anchor::Start,
                        TEXT,
                        "vcmalloc cache_limit=06M",
                    )
                })
                .collect();
            assert_eq!(places.len(), 8);
            for (at, one) in places.iter().enumerate() {
                assert!(places[at + 1..].iter().all(|other| !one.meets(other)), "{width}: {places:?}");
                assert!(one.left >= 30.0 && one.right <= width, "{width}: {one:?}");
            }
        }
    }
}
