//! Lines over time or another number, and points between two axes.

use super::{Area, Drawing, colour_of, number, text};
use plotters::prelude::*;

pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// What the others are compared with: the area below it is filled.
    pub is_area: bool,
}

/// One name between two axes.
pub struct Point {
    pub name: String,
    pub across: f64,
    pub up: f64,
}

/// More points than this make a line without dots.
const MOST_DOTS: usize = 40;

pub(super) fn lines(area: &Area, series: &[Series], across: &str, up: &str) -> Drawing {
    let points = || series.iter().flat_map(|series| &series.points);
    let left = points().map(|point| point.0).fold(0.0, f64::min);
    let right = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let top = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(left..right * 1.05, 0.0..top * 1.08)?;
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(BLACK.mix(0.4))
        .label_style(("sans-serif", 14))
        .x_desc(across)
        .y_desc(up)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .draw()?;
    for Series { name, points, is_area } in series {
        let colour = colour_of(name);
        if *is_area {
            chart.draw_series(AreaSeries::new(points.iter().copied(), 0.0, colour.mix(0.35)))?;
            continue;
        }
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        if points.len() <= MOST_DOTS {
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        }
    }
    Ok(())
}

pub(super) fn points(
    area: &Area,
    points: &[Point],
    [across, up]: [&str; 2],
    least: f64,
    most: (f64, f64),
) -> Drawing {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .set_label_area_size(LabelAreaPosition::Left, 60)
        .set_label_area_size(LabelAreaPosition::Bottom, 45)
        .build_cartesian_2d(
            // Room for the names at the right.
            (least..most.0 * 1.8).log_scale().base(2.0),
            (least..most.1 * 1.1).log_scale().base(2.0),
        )?;
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .axis_style(BLACK.mix(0.4))
        .x_desc(across)
        .y_desc(up)
        .label_style(("sans-serif", 14))
        .draw()?;
    let high = chart.plotting_area().dim_in_pixel().1;
    let doubling = f64::from(high) / (most.1 * 1.1 / least).log2();
    for (point, lift) in points.iter().zip(lifts(points, doubling)) {
        let colour = colour_of(&point.name);
        let name = Text::new(point.name.clone(), (8, -7 + lift), text(14).color(&colour));
        let place = (point.across, point.up);
        chart.draw_series([EmptyElement::at(place) + Circle::new((0, 0), 5, colour.filled()) + name])?;
    }
    Ok(())
}

/// How many pixels each label moves so that those of close points do not lie on each other: from the top
/// down, each at least a line below the one before if they are near in both directions.
fn lifts(points: &[Point], doubling: f64) -> Vec<i32> {
    const LINE: f64 = 14.0;
    let height = |point: &Point| -point.up.log2() * doubling;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&one, &other| height(&points[one]).total_cmp(&height(&points[other])));
    let mut placed: Vec<(usize, f64)> = Vec::new();
    for index in order {
        let near = |other: usize| (points[other].across / points[index].across).log2().abs() < 0.8;
        let lowest_near = placed.iter().filter(|(other, _)| near(*other)).map(|(_, y)| y + LINE);
        let y = lowest_near.fold(height(&points[index]), f64::max);
        placed.push((index, y));
    }
    let mut lifts = vec![0; points.len()];
    placed.iter().for_each(|&(index, y)| lifts[index] = (y - height(&points[index])) as i32);
    lifts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_points_on_one_place_stand_below_each_other() {
        let point = |across, up| Point { name: String::new(), across, up };
        let points = [point(1.0, 1.0), point(1.0, 1.0), point(8.0, 1.0)];
        assert_eq!(lifts(&points, 50.0), [0, 14, 0]);
    }
}
