//! Things that take turns under each arm: who has which arm when, and by how much two arms differ.
//!
//! The load of what runs anyhow changes with the hour. If others were on the other arm in the same period, the change
//! of all of them from one period to the next is fitted and taken out; else the order of the arms alone balances it.

use crate::paired::{self, Difference};

/// So many degrees of freedom must be left for the periods to be fitted: with fewer the interval grows by more than
/// what they explain is worth.
const LEAST_FREEDOM: usize = 4;

/// The arms in the order of one row of a square in which each stands at every place once and follows each other one
/// equally often (E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949;
/// of an odd number of arms it takes two squares, the second in the reverse order).
pub fn order(arms: usize, row: usize) -> Vec<usize> {
    // 0, 1, n-1, 2, n-2, ...
    let zigzag = (0..arms).map(|at| if at % 2 == 1 { at.div_ceil(2) } else { (arms - at / 2) % arms.max(1) });
    let row = row % rows(arms);
    let mut order: Vec<usize> = zigzag.map(|arm| (arm + row) % arms).collect();
    if row >= arms {
        order.reverse();
    }
    order
}

/// How many rows there are.
pub fn rows(arms: usize) -> usize {
    (if arms.is_multiple_of(2) { arms } else { 2 * arms }).max(1)
}

/// One thing under two arms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub first: f64,
    pub second: f64,
    /// When it was under each.
    pub periods: (usize, usize),
}

/// Whether the periods are fitted: known from when who was where, not from what was measured.
pub fn fits_periods(periods: &[(usize, usize)]) -> bool {
    Fit::of(periods).is_some()
}

/// By how much the second arm differs from the first. None where there is no pair of positive values.
pub fn difference(pairs: &[Pair]) -> Option<Difference> {
    let usable =
        |pair: &&Pair| pair.first > 0.0 && pair.second > 0.0 && (pair.second / pair.first).is_finite();
    let usable: Vec<&Pair> = pairs.iter().filter(usable).collect();
    let logs: Vec<f64> = usable.iter().map(|pair| (pair.second / pair.first).ln()).collect();
    let periods: Vec<(usize, usize)> = usable.iter().map(|pair| pair.periods).collect();
    let Some(fit) = Fit::of(&periods) else { return paired::of_logs(&logs) };
    // The part that the periods do not explain of the logarithms, and of a difference that is the same in each.
    let left = fit.without_periods(&logs);
    let mean = dot(&fit.alone, &left) / fit.reach;
    let rest: Vec<f64> = left.iter().zip(&fit.alone).map(|(log, alone)| log - mean * alone).collect();
    let error = (dot(&rest, &rest) / fit.freedom as f64 / fit.reach).sqrt();
    let adjusted: Vec<f64> = rest.iter().map(|rest| mean + rest).collect();
    Some(paired::judged(&adjusted, mean, error, fit.freedom))
}

/// Least squares of a difference and what each period does, by orthogonal columns.
struct Fit {
    /// Of length one and at right angles: what the periods can explain.
    periods: Vec<Vec<f64>>,
    /// The part that the periods do not explain of a difference that is the same in each pair, and its square.
    alone: Vec<f64>,
    reach: f64,
    freedom: usize,
}

impl Fit {
    /// None where too little would be left, or the difference could not be told from the periods.
    fn of(pairs: &[(usize, usize)]) -> Option<Fit> {
        let mut all: Vec<usize> = pairs.iter().flat_map(|(first, second)| [*first, *second]).collect();
        all.sort_unstable();
        all.dedup();
        let mut fit = Fit { periods: Vec::new(), alone: vec![1.0; pairs.len()], reach: 0.0, freedom: 0 };
        for period in all {
            let sign = |(first, second): &(usize, usize)| {
                f64::from(u8::from(*second == period)) - f64::from(u8::from(*first == period))
            };
            let column = fit.without_periods(&pairs.iter().map(sign).collect::<Vec<_>>());
            let length = dot(&column, &column).sqrt();
            if length > 1e-6 {
                fit.periods.push(column.iter().map(|part| part / length).collect());
            }
        }
        fit.alone = fit.without_periods(&fit.alone);
        fit.reach = dot(&fit.alone, &fit.alone);
        fit.freedom = pairs.len().checked_sub(fit.periods.len() + 1)?;
        (fit.freedom >= LEAST_FREEDOM && fit.reach > 1e-6).then_some(fit)
    }

    fn without_periods(&self, column: &[f64]) -> Vec<f64> {
        let mut left = column.to_vec();
        for period in &self.periods {
            let share = dot(period, &left);
            left.iter_mut().zip(period).for_each(|(left, period)| *left -= share * period);
        }
        left
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::tests::Random;

    #[test]
    fn in_a_square_each_arm_has_every_place_and_follows_each_other_one_equally_often() {
        assert_eq!([order(2, 0), order(2, 1), order(2, 2)], [vec![0, 1], vec![1, 0], vec![0, 1]]);
        for arms in 2..7 {
            let mut followed = vec![0; arms * arms];
            for row in 0..rows(arms) {
                let order = order(arms, row);
                order.windows(2).for_each(|pair| followed[pair[0] * arms + pair[1]] += 1);
            }
            for place in 0..arms {
                let mut first: Vec<usize> = (0..arms).map(|row| order(arms, row)[place]).collect();
                first.sort_unstable();
                assert_eq!(first, (0..arms).collect::<Vec<_>>(), "{arms} arms, place {place}");
            }
            let often = rows(arms) / arms;
            for (at, count) in followed.iter().enumerate() {
                let expected = if at / arms == at % arms { 0 } else { often };
                assert_eq!(*count, expected, "{} behind {} of {arms}", at % arms, at / arms);
            }
        }
    }

    /// Units in cycles of two periods, with a load that changes by `tide` from period to period.
    fn measured(
        random: &mut Random,
        units: usize,
        cycles: usize,
        tide: f64,
        noise: f64,
        by: f64,
    ) -> Vec<Pair> {
        let tides: Vec<f64> = (0..2 * cycles).map(|_| tide * random.normal()).collect();
        let mut pairs = Vec::new();
        for cycle in 0..cycles {
            for unit in 0..units {
                let order = order(2, unit + cycle);
                let place = |arm| 2 * cycle + order.iter().position(|own| *own == arm).unwrap();
                let mut value = |arm: usize| {
                    let own = unit as f64 + if arm == 1 { by.ln_1p() } else { 0.0 };
                    (own + tides[place(arm)] + noise * random.normal()).exp()
                };
                pairs.push(Pair { first: value(0), second: value(1), periods: (place(0), place(1)) });
            }
        }
        pairs
    }

    fn shown(seed: u64, units: usize, cycles: usize, tide: f64, by: f64) -> bool {
        let pairs = measured(&mut Random(seed), units, cycles, tide, 0.01, by);
        difference(&pairs).unwrap().is_shown
    }

    #[test]
    fn a_planted_5_percent_is_found_20_times_of_20_below_a_load_that_doubles_and_halves() {
        assert_eq!((0..20).filter(|seed| shown(*seed, 3, 4, 0.7, 0.05)).count(), 20);
        // Without the fit the same is hidden.
        let raw = |seed: &u64| {
            let pairs = measured(&mut Random(*seed), 3, 4, 0.7, 0.01, 0.05);
            let logs: Vec<f64> = pairs.iter().map(|pair| (pair.second / pair.first).ln()).collect();
            paired::of_logs(&logs).unwrap().is_shown
        };
        assert!((0..20).filter(raw).count() < 5);
    }

    #[test]
    fn of_equal_arms_one_in_a_hundred_at_most_is_called_different() {
        for (units, cycles) in [(1, 12), (2, 6), (3, 4), (6, 2), (3, 2)] {
            let wrong = (1000..5000).filter(|seed| shown(*seed, units, cycles, 0.3, 0.0)).count();
            assert!(wrong <= 60, "{wrong} of 4000 with {units} units and {cycles} cycles");
        }
    }

    #[test]
    fn a_single_unit_has_nobody_to_tell_the_periods_by() {
        let single = measured(&mut Random(1), 1, 12, 0.0, 0.01, 0.05);
        let periods: Vec<_> = single.iter().map(|pair| pair.periods).collect();
        assert!(!fits_periods(&periods));
        let found = difference(&single).unwrap();
        assert!(found.is_shown && (found.by - 0.05).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn what_all_units_did_alike_is_no_difference_and_what_they_did_exactly_is_found_exactly() {
        let pairs = measured(&mut Random(3), 4, 4, 0.5, 0.0, 0.2);
        let found = difference(&pairs).unwrap();
        assert!((found.by - 0.2).abs() < 1e-9 && found.is_shown, "{found:?}");
        let none = difference(&measured(&mut Random(3), 4, 4, 0.5, 0.0, 0.0)).unwrap();
        assert!(none.by.abs() < 1e-9 && !none.is_shown, "{none:?}");
    }

    #[test]
    fn no_pair_is_no_comparison() {
        assert_eq!(difference(&[]), None);
        assert_eq!(difference(&[Pair { first: 0.0, second: 1.0, periods: (0, 1) }]), None);
    }
}
