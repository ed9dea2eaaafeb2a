//! Two things measured in the same rounds: by how much one differs, how sure that is, and what could have been seen.
//!
//! Owns the only test of differences. Works on logarithms of ratios, so that twice and half are equally far from one.
//! Promises the same answer for the same numbers.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The chance with which equal things are called different in one comparison.
const CHANCE: f64 = 0.01;
/// The share of comparisons that are to show the smallest effect.
const POWER: f64 = 0.8;
/// The share of the permutations of signs that may be as far from zero: they guard against one wild round, which a t
/// interval is not made for, and must not ask for more rounds than it does.
const PERMUTED: f64 = 0.05;
/// From so many rounds on 2 of all 2^n permutations are less than that.
const ROUNDS_FOR_PERMUTATIONS: usize = 6;
/// Up to here all permutations are counted; beyond it t alone is exact enough.
const MOST_PERMUTED: usize = 16;

/// By how much the second differs from the first; 0.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    pub rounds: usize,
    /// The mean of the rounds.
    pub by: f64,
    /// The interval in which it lies; none with a single round.
    pub interval: Option<(f64, f64)>,
    /// The least difference that four of five such comparisons show.
    pub smallest: Option<f64>,
    /// The chance of a mean as far from none, were there no difference; 1 with a single round. For whoever makes many
    /// comparisons and acts on the best.
    pub chance: f64,
    /// The interval and the permutations say that there is one.
    pub is_shown: bool,
}

/// Compares values of the same rounds. None where there is no pair of positive values.
pub fn difference(first: &[f64], second: &[f64]) -> Option<Difference> {
    let usable = |(one, other): &(&f64, &f64)| **one > 0.0 && **other > 0.0 && (**other / **one).is_finite();
    let logs: Vec<f64> =
        first.iter().zip(second).filter(usable).map(|(one, other)| (other / one).ln()).collect();
    of_logs(&logs)
}

/// The same of logarithms of ratios.
pub(crate) fn of_logs(logs: &[f64]) -> Option<Difference> {
    let rounds = logs.len();
    let mean = logs.iter().sum::<f64>() / rounds as f64;
    if rounds == 0 {
        return None;
    }
    if rounds == 1 {
        let by = mean.exp_m1();
        return Some(Difference { rounds, by, interval: None, smallest: None, chance: 1.0, is_shown: false });
    }
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / (rounds - 1) as f64 / rounds as f64).sqrt();
    Some(judged(logs, mean, error, rounds - 1))
}

/// The difference by a mean with its standard error and degrees of freedom.
pub(crate) fn judged(logs: &[f64], mean: f64, error: f64, freedom: usize) -> Difference {
    let student = student(freedom);
    let reach = student.inverse_cdf(1.0 - CHANCE / 2.0) * error;
    let smallest = (reach + student.inverse_cdf(POWER) * error).exp_m1();
    // Counts and such may be the same in every round: then any difference is one, but for rounding.
    let is_shown = mean.abs() > reach.max(1e-9) && permutations_agree(logs);
    let interval = Some(((mean - reach).exp_m1(), (mean + reach).exp_m1()));
    let chance = match error {
        _ if mean.abs() <= 1e-9 => 1.0,
        0.0 => 0.0,
        _ => 2.0 * student.sf(mean.abs() / error),
    };
    Difference { rounds: logs.len(), by: mean.exp_m1(), interval, smallest: Some(smallest), chance, is_shown }
}

/// Were there no difference, either sign of a round would be as likely: few of all choices of signs may have a sum as
/// far from zero.
fn permutations_agree(logs: &[f64]) -> bool {
    if logs.len() > MOST_PERMUTED {
        return true;
    }
    if logs.len() < ROUNDS_FOR_PERMUTATIONS {
        return logs.iter().all(|log| *log > 0.0) || logs.iter().all(|log| *log < 0.0);
    }
    let seen = logs.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    let all = 1u32 << logs.len();
    let signed = |signs: u32| {
        logs.iter().enumerate().map(|(at, log)| if signs >> at & 1 == 0 { *log } else { -log }).sum::<f64>()
    };
    let as_far = (0..all).filter(|signs| signed(*signs).abs() >= seen).count();
    as_far as f64 <= f64::from(all) * PERMUTED
}

/// Student's t with so many degrees of freedom; two rounds and more have at least one.
fn student(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom.max(1) as f64).expect("scale and freedom are above zero")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// SplitMix64 (Steele, Lea and Flood 2014), and normal values by Box and Muller.
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
        }

        pub(crate) fn normal(&mut self) -> f64 {
            let (distance, angle) = (self.uniform().max(1e-300), self.uniform());
            (-2.0 * distance.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
        }

        /// Rounds of two things on a machine that drifts by a tenth, each off by `noise`, the second `factor` as large.
        fn rounds(&mut self, rounds: usize, noise: f64, factor: f64) -> (Vec<f64>, Vec<f64>) {
            let mut pair = || {
                let machine = 100.0 * (1.0 + 0.1 * self.normal()).max(0.5);
                let mut off = || (noise * self.normal()).exp();
                (machine * off(), machine * factor * off())
            };
            (0..rounds).map(|_| pair()).unzip()
        }
    }

    fn shown(seed: u64, rounds: usize, noise: f64, factor: f64) -> bool {
        let (first, second) = Random(seed).rounds(rounds, noise, factor);
        difference(&first, &second).unwrap().is_shown
    }

    #[test]
    fn a_planted_slowdown_of_5_percent_is_found_20_times_of_20() {
        assert_eq!((0..20).filter(|seed| shown(*seed, 5, 0.008, 1.05)).count(), 20);
    }

    #[test]
    fn a_planted_growth_of_20_percent_is_found_20_times_of_20() {
        assert_eq!((0..20).filter(|seed| shown(*seed, 5, 0.03, 1.2)).count(), 20);
    }

    #[test]
    fn between_the_same_twice_nothing_is_found_20_times_of_20() {
        for rounds in [5, 8, 12] {
            assert_eq!((0..20).filter(|seed| shown(*seed, rounds, 0.02, 1.0)).count(), 0, "{rounds} rounds");
        }
    }

    #[test]
    fn of_equal_things_one_in_a_hundred_at_most_is_called_different() {
        for rounds in [3, 5, 8, 20] {
            let wrong = (1000..5000).filter(|seed| shown(*seed, rounds, 0.05, 1.0)).count();
            assert!(wrong <= 60, "{wrong} of 4000 with {rounds} rounds");
        }
    }

    #[test]
    fn the_smallest_effect_is_what_four_of_five_comparisons_show() {
        // Planted in other rounds with the same noise.
        let smallest: Vec<f64> = (0..500)
            .map(|seed| Random(seed).rounds(8, 0.02, 1.0))
            .filter_map(|(first, second)| difference(&first, &second)?.smallest)
            .collect();
        let typical = crate::statistics::median(&smallest).unwrap();
        let found = (5000..6000).filter(|seed| shown(*seed, 8, 0.02, 1.0 + typical)).count();
        assert!((650..=900).contains(&found), "{found} of 1000 at {typical}");
    }

    #[test]
    fn the_chance_is_that_of_equal_things_to_look_so_different() {
        let chances: Vec<f64> = (0..4000)
            .map(|seed| Random(seed).rounds(5, 0.05, 1.0))
            .filter_map(|(first, second)| Some(difference(&first, &second)?.chance))
            .collect();
        for least in [0.5, 0.1, 0.02] {
            let below = chances.iter().filter(|chance| **chance < least).count() as f64 / 4000.0;
            assert!((below / least - 1.0).abs() < 0.35, "{below} below {least}");
        }
        assert_eq!(difference(&[100.0; 5], &[100.0; 5]).unwrap().chance, 1.0);
        assert_eq!(difference(&[100.0; 5], &[120.0; 5]).unwrap().chance, 0.0);
    }

    #[test]
    fn the_interval_holds_the_planted_effect() {
        let (first, second) = Random(7).rounds(10, 0.02, 0.8);
        let found = difference(&first, &second).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(low < -0.2 && -0.2 < high && found.is_shown, "{found:?}");
        assert!((found.by + 0.2).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn one_round_shows_nothing_and_no_round_is_no_comparison() {
        let one = difference(&[1.0], &[2.0]).unwrap();
        assert_eq!((one.by, one.interval, one.is_shown), (1.0, None, false));
        assert_eq!(difference(&[], &[]), None);
        assert_eq!(difference(&[0.0], &[1.0]), None, "no ratio to nothing");
    }

    #[test]
    fn counts_that_never_vary_differ_or_do_not() {
        assert!(difference(&[100.0; 5], &[120.0; 5]).unwrap().is_shown);
        assert!(!difference(&[100.0; 5], &[100.0; 5]).unwrap().is_shown);
    }
}
