//! The sentences that every page begins with: what came out, and of which sizes.

use crate::engine::allocators::ALLOCATORS;
use crate::engine::experiment::{Compared, Experiment, Point};
use crate::engine::results::{Judged, Results, Row};
use crate::engine::statistics::{median, range};
use crate::engine::tell::counted;
use std::collections::BTreeMap;

/// What came out, before all numbers.
pub fn outcome(results: &Results) -> String {
    let verdict = &results.verdict;
    if !verdict.void.is_empty() {
        return format!("Void: {}. The numbers of this run mean nothing.", verdict.void.join("; "));
    }
    let controls = match verdict.controls.as_slice() {
        [] => String::new(),
        [one] => {
            format!(" The known cost was seen ({}: {}), so the numbers may be read.", one.what, one.remark)
        }
        [_, _] => " Both known costs were seen, so the numbers may be read.".to_owned(),
        all => format!(" All {} known costs were seen, so the numbers may be read.", all.len()),
    };
    format!("{}{controls}", claims(&verdict.claims))
}

/// What the rows say to the question, then the claims; of a void run why it says nothing.
pub fn answer(experiment: &Experiment, results: &Results) -> String {
    let is_void = !results.verdict.void.is_empty();
    let parts =
        experiment.answer.iter().filter(|_| !is_void).map(|part| compared(experiment, part, &results.rows));
    parts.flatten().map(|part| part + " ").collect::<String>() + &outcome(results)
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

fn claims(claims: &[Judged]) -> String {
    let count = |holds| claims.iter().filter(|claim| claim.holds == holds).count();
    let (held, missed, open) = (count(Some(true)), count(Some(false)), count(None));
    let parts = [(held, "held"), (missed, "missed"), (open, "not judged")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let first = claims.iter().find(|claim| claim.holds.is_some());
    match (claims.len(), first) {
        (0, _) => "The experiment makes no claim.".to_owned(),
        (all, None) => {
            format!("{} of this project, none of them judged: {}.", counted(all as u64, "claim"), why(claims))
        }
        (all, Some(first)) => {
            let all = counted(all as u64, "claim");
            format!("Of {all} of this project: {}. The first: {}.", parts.join(", "), in_words(first))
        }
    }
}

fn why(claims: &[Judged]) -> &str {
    claims.first().map_or("", |claim| claim.remark.as_str())
}

/// A claim with its number, or with the reason why it has none.
pub fn in_words(claim: &Judged) -> String {
    match (claim.measured, claim.holds) {
        (Some(measured), Some(holds)) => {
            let verdict = if holds { "holds" } else { "does not hold" };
            format!("{}: {measured:.2} ({} at most: {verdict})", claim.what, claim.bound)
        }
        _ => format!("{}: not judged ({})", claim.what, claim.remark),
    }
}

/// Where the run is smaller than the experiment can be: what was run, and what the full plan has.
pub fn sizes(experiment: &Experiment, results: &Results) -> Option<String> {
    let differs = experiment.axes.iter().filter_map(|axis| {
        let ran: Vec<&str> = axis
            .full
            .iter()
            .chain(axis.quick)
            .copied()
            .filter(|value| was_run(results, axis.name, value))
            .collect();
        let mut known: Vec<&str> = Vec::new();
        ran.into_iter().for_each(|value| {
            if !known.contains(&value) {
                known.push(value)
            }
        });
        let missing = axis.full.iter().any(|value| !known.contains(value));
        (missing && !known.is_empty())
            .then(|| format!("{} {} (the full plan: {})", axis.name, known.join(", "), axis.full.join(", ")))
    });
    let differs: Vec<String> = differs.collect();
    (!differs.is_empty()).then(|| format!("This run is smaller than the full plan: {}.", differs.join("; ")))
}

fn was_run(results: &Results, axis: &str, value: &str) -> bool {
    results.rows.iter().any(|row| row.axes.get(axis).is_some_and(|own| own == value))
}

/// What the names of the allocators stand for, of those whose names do not say it.
pub fn allocators(results: &Results) -> Vec<(&'static str, &'static str)> {
    let known = ALLOCATORS.iter().filter(|one| results.allocators.iter().any(|name| name == one.name));
    known.filter(|one| one.what != one.name).map(|one| (one.name, one.what)).collect()
}
