//! May the numbers be read, and do they hold what was said?
//!
//! Owns the judgement. Promises that a run whose positive controls are not seen, or cannot be judged, is
//! void, with the reason.

use super::experiment::{Claim, Control, Experiment};
use super::results::{Judged, Row, Verdict};
use super::statistics::{at, ratios};
use vcm_measure::statistics::{median, noise};

/// A control must be this many times its own noise away from 1.
const NOISE_FACTOR: f64 = 2.0;

pub fn judge(experiment: &Experiment, rows: &[Row]) -> Verdict {
    let controls: Vec<Judged> =
        experiment.controls.iter().map(|control| judge_control(control, rows)).collect();
    let failed = |judged: &&Judged| judged.holds != Some(true);
    let mut void: Vec<String> =
        controls.iter().filter(failed).map(|judged| format!("{}: {}", judged.what, judged.remark)).collect();
    if rows.is_empty() {
        void.push("no cell was measured".to_owned());
    }
    let claims = experiment.claims.iter().map(|claim| judge_claim(claim, rows)).collect();
    Verdict { void, controls, claims }
}

fn judge_control(control: &Control, rows: &[Row]) -> Judged {
    let ratios = ratios(rows, &control.higher, &control.lower);
    let judged = |measured, holds, remark: String| Judged {
        what: control.what.to_owned(),
        measured,
        bound: control.at_least,
        holds,
        remark,
    };
    let (Some(ratio), Some(noise)) = (median(&ratios), noise(&ratios)) else {
        return judged(None, None, "not measured in this run".to_owned());
    };
    if ratio < control.at_least {
        let remark = format!("{ratio:.2} times, must be at least {:.2}", control.at_least);
        return judged(Some(ratio), Some(false), remark);
    }
    if ratio - 1.0 < NOISE_FACTOR * noise {
        let remark = format!("{ratio:.2} times, but a repetition is off by {:.0} %", 100.0 * noise);
        return judged(Some(ratio), Some(false), remark);
    }
    judged(Some(ratio), Some(true), format!("{ratio:.2} times"))
}

fn judge_claim(claim: &Claim, rows: &[Row]) -> Judged {
    let values = match &claim.over {
        Some(over) => ratios(rows, &claim.point, over),
        None => at(rows, &claim.point).into_iter().map(|(_, value)| value).collect(),
    };
    let measured = median(&values);
    let remark = match values.len() {
        0 => missing(claim, rows),
        1 => "one repetition".to_owned(),
        several => format!("median of {several}"),
    };
    let holds = measured.map(|value| value <= claim.at_most);
    Judged { what: claim.what.to_owned(), measured, bound: claim.at_most, holds, remark }
}

/// Why a claim has no number: the first thing of its points that no row has.
fn missing(claim: &Claim, rows: &[Row]) -> String {
    let points = [Some(&claim.point), claim.over.as_ref()];
    let reason = points.into_iter().flatten().find_map(|point| {
        if rows.iter().all(|row| row.allocator != point.allocator) {
            return Some(format!("it needs {} in the run", point.allocator));
        }
        let (name, value) = point.axes.iter().find(|(name, value)| {
            rows.iter().all(|row| row.axes.get(*name).is_none_or(|own| own != value))
        })?;
        let mut ran: Vec<&str> =
            rows.iter().filter_map(|row| row.axes.get(*name).map(String::as_str)).collect();
        ran.sort_unstable();
        ran.dedup();
        Some(format!("it is about {name} {value}, and this run had {}; --full has it", ran.join(", ")))
    });
    reason.unwrap_or_else(|| "not measured in this run".to_owned())
}
