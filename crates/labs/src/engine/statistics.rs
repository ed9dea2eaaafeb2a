//! Rows at a point and their ratios, repetition by repetition.

use super::experiment::Point;
use super::results::Row;

/// The values at a point, by repetition.
pub fn at(rows: &[Row], point: &Point) -> Vec<(u32, f64)> {
    let fits = |row: &&Row| {
        row.allocator == point.allocator
            && row.step == point.step
            && point.axes.iter().all(|(name, value)| row.axes.get(*name).is_some_and(|own| own == value))
    };
    let value = |row: &Row| Some((row.repetition, *row.values.get(point.measure)?));
    rows.iter().filter(fits).filter_map(value).collect()
}

/// One over the other, repetition by repetition, so that what disturbs both cancels. Of several values in a
/// repetition (daemons on the same allocator) their mean.
pub fn ratios(rows: &[Row], higher: &Point, lower: &Point) -> Vec<f64> {
    let below = by_repetition(&at(rows, lower));
    let ratio = |(repetition, value): (u32, f64)| {
        let (_, other) = below.iter().find(|(number, _)| *number == repetition)?;
        (*other > 0.0).then(|| value / other)
    };
    by_repetition(&at(rows, higher)).into_iter().filter_map(ratio).collect()
}

fn by_repetition(values: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut sums: std::collections::BTreeMap<u32, (f64, f64)> = Default::default();
    for (repetition, value) in values {
        let sum = sums.entry(*repetition).or_default();
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    sums.into_iter().map(|(repetition, (sum, count))| (repetition, sum / count)).collect()
}

/// The same rows with the measure divided by what the allocator `over` had at the same place in the same
/// repetition; rows without a counterpart are left out; of several counterparts their mean.
pub fn relative(rows: &[Row], measure: &str, over: &str) -> Vec<Row> {
    let ratio = |row: &Row| -> Option<Row> {
        let counterpart = |other: &&Row| {
            other.allocator == over
                && (&other.axes, other.repetition, &other.step) == (&row.axes, row.repetition, &row.step)
        };
        let below: Vec<f64> =
            rows.iter().filter(counterpart).filter_map(|row| row.values.get(measure)).copied().collect();
        let below = below.iter().sum::<f64>() / below.len() as f64;
        let value = row.values.get(measure).filter(|_| below > 0.0)? / below;
        Some(Row { values: [(measure.to_owned(), value)].into(), ..row.clone() })
    };
    rows.iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_row_is_divided_by_its_own_repetitions() {
        let row = |allocator: &str, repetition, value| Row {
            allocator: allocator.to_owned(),
            axes: [("store".to_owned(), "memstore".to_owned())].into(),
            repetition,
            step: "write".to_owned(),
            values: [("ms".to_owned(), value)].into(),
        };
        let rows = [row("a", 0, 2.0), row("b", 0, 4.0), row("a", 1, 3.0), row("b", 1, 3.0), row("b", 2, 9.0)];
        let relative = relative(&rows, "ms", "a");
        let of_b: Vec<f64> =
            relative.iter().filter(|row| row.allocator == "b").map(|row| row.values["ms"]).collect();
        assert_eq!(of_b, [2.0, 1.0], "the third has no counterpart");
        let axes = &[("store", "memstore")];
        let point = |allocator| Point { allocator, axes, step: "write", measure: "ms" };
        let two = [row("a", 0, 1.0), row("a", 0, 3.0), row("b", 0, 3.0), row("b", 0, 5.0)];
        assert_eq!(ratios(&two, &point("b"), &point("a")), [2.0], "two daemons each");
    }
}
