//! Runs of ones in 128-bit maps.

/// Units in a 2 MiB block, and bits in its maps.
pub const HUGE_PAGE_UNITS: u32 = 128;

/// Bits `start .. start + length`; `length` is at least 1 and the range ends at 128 at the latest.
pub const fn mask(start: u32, length: u32) -> u128 {
    debug_assert!(length >= 1 && start + length <= HUGE_PAGE_UNITS);
    (u128::MAX >> (HUGE_PAGE_UNITS - length)) << start
}

/// The first place, at a multiple of `align` (a power of two), where `length` ones stand in a row.
pub fn find_run(map: u128, length: u32, align: u32) -> Option<u32> {
    let mut starts = map;
    let mut missing = length - 1;
    let mut shift = 1;
    // Each round keeps a bit only where the run so far is followed by as much again.
    while missing > 0 {
        let step = shift.min(missing);
        starts &= starts >> step;
        missing -= step;
        shift *= 2;
    }
    let start = (starts & multiples_of(align)).trailing_zeros();
    if start < HUGE_PAGE_UNITS { Some(start) } else { None }
}

/// Ones at the multiples of `align`.
fn multiples_of(align: u32) -> u128 {
    let mut map = 1;
    let mut reach = align;
    while reach < HUGE_PAGE_UNITS {
        map |= map << reach;
        reach *= 2;
    }
    map
}

/// The length of the longest row of ones.
pub fn longest_run(map: u128) -> u32 {
    // Most blocks that a long run touches are one or the other.
    if map == u128::MAX || map == 0 {
        return map.count_ones();
    }
    // starts[k] has a bit where 2^k ones begin; the answer is built from its highest power down.
    let mut powers = [0u128; 7];
    let mut starts = map;
    let mut shift = 1;
    for power in powers.iter_mut() {
        *power = starts;
        starts &= starts >> shift;
        shift *= 2;
    }
    let (mut length, mut reach) = (0, u128::MAX);
    for (exponent, power) in powers.iter().enumerate().rev() {
        let longer = reach & (power >> length);
        if longer != 0 {
            reach = longer;
            length += 1 << exponent;
        }
    }
    length
}

/// Each row of ones in `map`, as start and length, lowest first.
pub fn each_run(map: u128, mut take: impl FnMut(u32, u32)) {
    let mut rest = map;
    while rest != 0 {
        let start = rest.trailing_zeros();
        let length = (!(rest >> start)).trailing_zeros().min(HUGE_PAGE_UNITS - start);
        take(start, length);
        rest &= !mask(start, length);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs_by_hand(map: u128) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for bit in (0..128).filter(|bit| map >> bit & 1 == 1) {
            match runs.last_mut() {
                Some((start, length)) if *start + *length == bit => *length += 1,
                _ => runs.push((bit, 1)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn runs_are_those_that_a_simple_scan_finds(a: u128, b: u128, sparse: bool, length in 1u32..=128, shift in 0u32..7) {
            let map = if sparse { a & b } else { a | b };
            let runs = runs_by_hand(map);
            prop_assert_eq!(longest_run(map), runs.iter().map(|run| run.1).max().unwrap_or(0));
            let mut seen = Vec::new();
            each_run(map, |start, length| seen.push((start, length)));
            prop_assert_eq!(&seen, &runs);
            let align = 1 << shift;
            let first = (0..128u32).step_by(align as usize)
                .find(|start| runs.iter().any(|run| run.0 <= *start && start + length <= run.0 + run.1));
            prop_assert_eq!(find_run(map, length, align), first);
        }
    }

    #[test]
    fn full_and_empty_maps_are_no_special_case() {
        assert_eq!((longest_run(0), longest_run(u128::MAX)), (0, 128));
        assert_eq!((find_run(u128::MAX, 128, 1), find_run(0, 1, 1)), (Some(0), None));
        assert_eq!(mask(0, 128), u128::MAX);
    }
}
