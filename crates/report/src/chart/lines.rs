//! Numbers over time or another number.

use super::axes::{DASHES, Key, Plot, legend};
use super::axis::{Axis, Name};
use crate::scale::Scale;
use crate::sheet::Sheet;
use crate::table::{Cell, Column, Row, Table};
use crate::unit;

#[derive(Clone, Debug)]
pub struct Series {
    pub name: Name,
    /// From the left to the right.
    pub points: Vec<(f64, f64)>,
    /// The others are compared with it: the area below it is filled.
    pub is_area: bool,
}

/// More points than this make a line without dots.
const MOST_DOTS: usize = 24;
/// Of the table: what the eye takes from a chart, and a reader of the table can bear.
const MOST_ROWS: usize = 60;

pub fn draw(sheet: &mut Sheet, width: f64, series: &[Series], [across, up]: [&Axis; 2]) -> f64 {
    let mut lines = 0;
    let keys: Vec<Key> = series
        .iter()
        .map(|one| match one.is_area {
            true => Key::Area,
            false => {
                lines += 1;
                Key::Dashes(lines - 1)
            }
        })
        .collect();
    let names: Vec<_> =
        series.iter().zip(&keys).map(|(one, key)| (one.name.name.as_str(), one.name.colour, *key)).collect();
    let top = legend(sheet, width, &names);
    let height = if width > 600.0 { 340.0 } else { 290.0 };
    let plot = Plot::with_axes(sheet, (width, top, height), (across, across_of(series)), (up, up_of(series)));
    let columns = plot.area.width().max(1.0) as usize;
    // The filled ones lie behind all lines.
    for is_area in [true, false] {
        for (one, key) in series.iter().zip(&keys).filter(|(one, _)| one.is_area == is_area) {
            let at = |pair: &(f64, f64)| (plot.x(pair.0), plot.y(pair.1));
            let points: Vec<(f64, f64)> = thinned(&one.points, columns).iter().map(at).collect();
            match key {
                Key::Area => sheet.filled_below(&points, plot.area.bottom, one.name.colour),
                Key::Dashes(at) => {
                    let dashes = DASHES.get(at % DASHES.len()).copied().unwrap_or("");
                    sheet.path(&points, one.name.colour, 2.0, dashes);
                }
            }
            if points.len() <= MOST_DOTS && !one.is_area {
                for (place, value) in points.iter().zip(&one.points) {
                    let said = format!("{}: {}", one.name.name, unit::shown(value.1, &up.unit));
                    sheet.told(&said, |sheet| sheet.shape(0, *place, 4.0, one.name.colour, 1.0));
                }
            }
        }
    }
    sheet.cursor(&plot.area);
    top + height
}

fn across_of(series: &[Series]) -> Scale {
    let places = || series.iter().flat_map(|one| &one.points).map(|point| point.0);
    let least = places().fold(f64::MAX, f64::min);
    let most = places().fold(f64::MIN, f64::max);
    if least < most { Scale { least, most, doubles: false } } else { Scale::from_zero(most) }
}

fn up_of(series: &[Series]) -> Scale {
    Scale::from_zero(series.iter().flat_map(|one| &one.points).map(|point| point.1).fold(0.0, f64::max))
}

/// Of each column of pixels the least and the greatest: peaks stay.
fn thinned(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= columns * 2 || last.0 <= first.0 {
        return points.to_vec();
    }
    let column = |point: &(f64, f64)| ((point.0 - first.0) / (last.0 - first.0) * columns as f64) as usize;
    let mut kept = Vec::new();
    for group in points.chunk_by(|one, other| column(one) == column(other)) {
        let extreme = |greatest: bool| {
            let of =
                |at: &usize| group.get(*at).map_or(0.0, |point| if greatest { point.1 } else { -point.1 });
            (0..group.len()).max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(0)
        };
        let (low, high) = (extreme(false), extreme(true));
        let mut places = [low.min(high), low.max(high)].to_vec();
        places.dedup();
        kept.extend(places.into_iter().filter_map(|at| group.get(at)));
    }
    kept
}

pub fn table(series: &[Series], [across, up]: [&Axis; 2]) -> Table {
    let scale = across_of(series);
    let mut places: Vec<f64> = series.iter().flat_map(|one| &one.points).map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() > MOST_ROWS {
        let step = (scale.most - scale.least) / (MOST_ROWS - 1) as f64;
        places = (0..MOST_ROWS).map(|at| scale.least + step * at as f64).collect();
    }
    let mut columns = vec![Column::number(across.with_unit(&across.unit))];
    columns.extend(series.iter().map(|one| Column::number(&one.name.name)));
    let row = |place: f64| {
        let mut cells = vec![Cell::number(place, shortest(place))];
        cells.extend(series.iter().map(|one| {
            at(&one.points, place)
                .map_or(Cell::none(), |value| Cell::number(value, unit::shown(value, &up.unit)))
        }));
        Row { cells, across: Some(scale.place(place)), ..Row::default() }
    };
    Table { title: String::new(), columns, rows: places.into_iter().map(row).collect() }
}

fn shortest(value: f64) -> String {
    let text = format!("{value:.3}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The last value up to there; none before the first and after the last.
fn at(points: &[(f64, f64)], place: f64) -> Option<f64> {
    let reach = 1e-9 * place.abs();
    let behind = points.partition_point(|point| point.0 <= place + reach);
    let is_over = points.last().is_none_or(|last| last.0 < place - reach);
    if is_over { None } else { points.get(behind.checked_sub(1)?).map(|point| point.1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::Colour;

    #[test]
    fn what_is_thinned_keeps_its_ends_and_its_peak() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        points[5001].1 = 9.0;
        points[7001].1 = 0.0;
        let thin = thinned(&points, 100);
        assert!(thin.len() <= 202, "{}", thin.len());
        assert!(thin.contains(&(5001.0, 9.0)) && thin.contains(&(7001.0, 0.0)));
        assert!(thin.is_sorted_by(|one, other| one.0 <= other.0));
    }

    #[test]
    fn the_table_has_the_value_of_each_line_at_the_same_places() {
        let name = |name: &str| Name { name: name.into(), colour: Colour::of_place(0) };
        let series = [
            Series { name: name("a"), points: vec![(0.0, 1.0), (2.0, 3.0)], is_area: false },
            Series { name: name("b"), points: vec![(1.0, 5.0)], is_area: false },
        ];
        let axis = Axis::default();
        let table = table(&series, [&axis, &axis]);
        let values: Vec<Vec<Option<f64>>> =
            table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.value).collect()).collect();
        assert_eq!(
            values,
            [[Some(0.0), Some(1.0), None], [Some(1.0), Some(1.0), Some(5.0)], [Some(2.0), Some(3.0), None]]
        );
        assert_eq!(table.rows.iter().map(|row| row.across.unwrap()).collect::<Vec<_>>(), [0.0, 0.5, 1.0]);
    }
}
