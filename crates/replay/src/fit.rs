//! How much of large blocks is touched, and how near a replay comes to what was recorded.
//!
//! Only growth is compared: the first sample of a recording has the program's own memory in it.

use serde::Serialize;

/// Time of the trace, bytes.
pub type Course = Vec<(u64, f64)>;

/// A replay is near enough that allocators can be ranked by it.
pub const NEAR: f64 = 0.1;

/// The replayed memory over the recorded one, under the allocator that was recorded.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fidelity {
    pub peak: f64,
    pub mean: f64,
}

impl Fidelity {
    pub fn is_near(&self) -> bool {
        [self.peak, self.mean].iter().all(|ratio| (ratio - 1.0).abs() <= NEAR)
    }
}

/// The share of large blocks by which a replay comes nearest to the recording, between one that touched none of them and
/// one that touched all: least squares of a line.
pub fn share(recorded: &[(u64, u64)], none: &Course, all: &Course) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    let start =
        recorded.first().and_then(|(time, bytes)| Some((*bytes as f64, at(none, *time)?, at(all, *time)?)));
    let Some((start, none_start, all_start)) = start else { return 1.0 };
    for (time, bytes) in recorded {
        let (Some(none), Some(all)) = (at(none, *time), at(all, *time)) else { continue };
        let (low, high) = (none - none_start, all - all_start);
        product += (*bytes as f64 - start - low) * (high - low);
        square += (high - low) * (high - low);
    }
    if square > 0.0 { (product / square).clamp(0.0, 1.0) } else { 1.0 }
}

/// One of the two that are compared.
type Of = fn(&(f64, f64)) -> f64;

/// None where there are not two samples to compare.
pub fn fidelity(recorded: &[(u64, u64)], replayed: &Course) -> Option<Fidelity> {
    let (time, bytes) = *recorded.first()?;
    let base = bytes as f64 - at(replayed, time)?;
    let pairs: Vec<(f64, f64)> = recorded
        .iter()
        .skip(1)
        .filter_map(|(time, bytes)| Some((*bytes as f64, base + at(replayed, *time)?)))
        .collect();
    let most = |of: Of| pairs.iter().map(of).fold(0.0, f64::max);
    let sum = |of: Of| pairs.iter().map(of).sum::<f64>();
    let (recorded, replayed): (Of, Of) = (|pair| pair.0, |pair| pair.1);
    (!pairs.is_empty())
        .then(|| Fidelity { peak: most(replayed) / most(recorded), mean: sum(replayed) / sum(recorded) })
}

/// The first value from that time on, else the last.
fn at(course: &Course, time: u64) -> Option<f64> {
    let found = course.partition_point(|(other, _)| *other < time).min(course.len().checked_sub(1)?);
    course.get(found).map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_was_planted_is_found() {
        let course = |of: fn(f64) -> f64| (0..10).map(|time| (time, of(time as f64))).collect::<Course>();
        let (none, all) = (course(|time| time * 10.0), course(|time| time * 50.0));
        let recorded: Vec<(u64, u64)> = (0..10).map(|time| (time, 1000 + 20 * time)).collect();
        assert!((share(&recorded, &none, &all) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_replay_that_grows_too_much_is_not_near() {
        let recorded = [(0, 1000), (1, 2000), (2, 3000)];
        let near = fidelity(&recorded, &vec![(0, 10.0), (1, 1010.0), (2, 2100.0)]).unwrap();
        assert!(near.is_near() && near.peak > 1.0, "{near:?}");
        let far = fidelity(&recorded, &vec![(0, 10.0), (1, 2010.0), (2, 3010.0)]).unwrap();
        assert!(!far.is_near(), "{far:?}");
        assert!(fidelity(&recorded[..1], &vec![(0, 1.0)]).is_none());
    }
}
