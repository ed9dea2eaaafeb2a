//! The growth between two profiles, possibly of two processes: stacks are the same where their functions are.

use super::calls::{Call, Chain, chains};
use super::profile::{Amount, Measure, Profile};
use std::collections::HashMap;

/// The growth from `before` to `after`, the largest first. Chains that are smaller now stand behind, with a minus.
pub fn growth(before: &Profile, after: &Profile, measure: Measure) -> Vec<Chain> {
    let mut then = HashMap::new();
    for chain in chains(before, measure) {
        then.entry(key(&chain.calls)).or_insert((Amount::default(), chain.calls)).0.add(chain.amount);
    }
    let mut found: HashMap<Vec<String>, (Amount, Vec<Call>)> = HashMap::new();
    for chain in chains(after, measure) {
        found.entry(key(&chain.calls)).or_insert((Amount::default(), chain.calls)).0.add(chain.amount);
    }
    let mut grown: Vec<Chain> = Vec::new();
    for (key, (amount, calls)) in found {
        let before = then.remove(&key).map_or(Amount::default(), |(amount, _)| amount);
        grown.push(Chain { calls, amount: amount.minus(before) });
    }
    let gone = |(amount, calls)| Chain { calls, amount: Amount::default().minus(amount) };
    grown.extend(then.into_values().map(gone));
    grown.retain(|chain| chain.amount.bytes != 0.0 || chain.amount.objects != 0.0);
    grown.sort_by(|left, right| {
        right
            .amount
            .bytes
            .total_cmp(&left.amount.bytes)
            .then_with(|| key(&left.calls).cmp(&key(&right.calls)))
    });
    grown
}

/// A line of a function may move from build to build.
fn key(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|call| call.function.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Site};

    fn profile(base: u64, sites: &[(&str, f64)]) -> Profile {
        let mut profile = Profile::default();
        for (at, (name, bytes)) in sites.iter().enumerate() {
            let address = base + at as u64;
            let frame = Frame { function: name.to_string(), file: "a.c".into(), line: base as u32 };
            profile.frames.insert(address, vec![frame]);
            let live = Amount { objects: 1.0, bytes: *bytes, variance: 2.0 };
            profile.sites.push(Site { frames: vec![address], live, ..Site::default() });
        }
        profile
    }

    #[test]
    fn what_grew_comes_first_and_what_went_last_at_other_addresses_and_lines() {
        let before = profile(0x1000, &[("same", 50.0), ("grows", 10.0), ("gone", 30.0)]);
        let after = profile(0x5000, &[("new", 5.0), ("grows", 25.0), ("same", 50.0)]);
        let grown = growth(&before, &after, Measure::Live);
        let shown: Vec<(&str, f64, f64)> = grown
            .iter()
            .map(|chain| (chain.calls[0].function.as_str(), chain.amount.bytes, chain.amount.variance))
            .collect();
        assert_eq!(shown, [("grows", 15.0, 4.0), ("new", 5.0, 2.0), ("gone", -30.0, 2.0)]);
    }
}
