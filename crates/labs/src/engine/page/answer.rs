//! The rows' answer to the experiment's question.

use super::said;
use crate::engine::experiment::{Compared, Experiment, Point};
use crate::engine::results::{Results, Row};
use std::collections::BTreeMap;
use vcm_measure::statistics::{median, range};

/// The rows' answer to the question, then the claims; of a void run why it says nothing.
pub fn in_sentences(experiment: &Experiment, results: &Results) -> String {
    let is_void = !results.verdict.void.is_empty();
    let parts =
        experiment.answer.iter().filter(|_| !is_void).map(|part| compared(experiment, part, &results.rows));
    parts.flatten().map(|part| part + " ").collect::<String>() + &said::outcome(results)
}

/// The middle of all places, and how far they lie apart; nothing where the run has no such rows.
fn compared(experiment: &Experiment, part: &Compared, rows: &[Row]) -> Option<String> {
    let is_whole = experiment.measure(part.point.measure).is_some_and(|measure| measure.whole);
    let places_of = |point| by_place(part, point, is_whole, rows);
    let (above, below) = (places_of(&part.point), places_of(&part.over));
    let mut places: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for ((place, repetition), values) in &above {
        let Some(over) = below.get(&(place.clone(), *repetition)).map(|over| mean(over)) else { continue };
        if over > 0.0 {
            places.entry(place).or_default().push(mean(values) / over);
        }
    }
    let medians: Vec<f64> = places.values().filter_map(|values| median(values)).collect();
    let (middle, (least, most)) = (median(&medians)?, range(&medians)?);
    let what = capitalized(part.what);
    Some(match medians.len() {
        1 => format!("{what}: {middle:.2}."),
        2 => format!("{what}: {least:.2} and {most:.2}."),
        count => format!("{what}: {middle:.2} in the middle of {count} places, {least:.2} to {most:.2}."),
    })
}

/// A place: what neither point names (other axes, the step, the allocator where its rows differ), for each repetition.
type Places<'a> = BTreeMap<(Vec<&'a str>, u32), Vec<f64>>;

fn by_place<'a>(part: &Compared, point: &Point, is_whole: bool, rows: &'a [Row]) -> Places<'a> {
    let named =
        |axis: &str| [part.point, part.over].iter().any(|point| point.axes.iter().any(|own| own.0 == axis));
    let fits = |row: &&Row| {
        (point.allocator.is_empty() || row.allocator == point.allocator)
            && (point.step.is_empty() || row.step == point.step)
            && point.axes.iter().all(|(name, value)| row.axes.get(*name).is_some_and(|own| own == value))
    };
    let mut places = Places::new();
    for row in rows.iter().filter(fits) {
        let axes = row.axes.iter().filter(|(name, _)| !named(name)).map(|(_, value)| value.as_str());
        let allocator = (point.allocator.is_empty() && !is_whole).then_some(row.allocator.as_str());
        let step = point.step.is_empty().then_some(row.step.as_str());
        let place = (axes.chain(allocator).chain(step).collect(), row.repetition);
        places.entry(place).or_default().extend(row.values.get(point.measure));
    }
    places.retain(|_, values| !values.is_empty());
    places
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
