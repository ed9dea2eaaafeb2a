//! The sentences that every page begins with: what came out, and of which sizes.

use crate::engine::experiment::Experiment;
use crate::engine::results::{Judged, Results};
use vcm_measure::allocators::ALLOCATORS;
use vcm_measure::tell::counted;

/// The outcome, before all numbers.
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

/// The sizes that were run and those of the full plan, if the run is smaller than the experiment can be.
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

/// The allocators whose names do not say what they stand for, with what that is.
pub fn allocators(results: &Results) -> Vec<(&'static str, &'static str)> {
    let known = ALLOCATORS.iter().filter(|one| results.allocators.iter().any(|name| name == one.name));
    known.filter(|one| one.what != one.name).map(|one| (one.name, one.what)).collect()
}
