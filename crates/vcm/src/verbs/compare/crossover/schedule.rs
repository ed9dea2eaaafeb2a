//! The arm of each unit in each period, and how long that is. Nothing here looks at the machine.

use crate::cli::compare::Services;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vcm_front::say::{Failure, NOT_UNDERSTOOD};
use vcm_measure::crossover;

/// So many pairs are planned for where nobody says how many periods.
const PAIRS: usize = 12;
/// The time that a daemon needs to warm up, where nobody says so and the period is long enough.
const WASHOUT: Duration = Duration::from_secs(600);
/// A year and more means a mistake.
const MOST_PERIODS: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub units: usize,
    pub arms: usize,
    pub cycles: usize,
    pub period_seconds: f64,
    pub washout_seconds: f64,
}

impl Schedule {
    pub fn of(units: usize, arms: usize, given: &Services) -> Result<Schedule, Failure> {
        let wrong = |reason: String| Err(Failure::new(NOT_UNDERSTOOD, reason));
        let cycles = match given.periods {
            Some(periods) if periods == 0 || !periods.is_multiple_of(arms) || periods > MOST_PERIODS => {
                return wrong(format!(
                    "--periods {periods}: with {arms} arms give a multiple of {arms}, at most {MOST_PERIODS}"
                ));
            }
            Some(periods) => periods / arms,
            None => {
                let wanted = PAIRS.div_ceil(units).max(2);
                let washout = given.washout.unwrap_or(WASHOUT).as_secs_f64().max(1e-9);
                let fits =
                    |cycles: &usize| given.length.as_secs_f64() / (*cycles * arms) as f64 >= 2.0 * washout;
                // If even one cycle is short, the washout is too, by default.
                (1..=wanted).rev().find(fits).unwrap_or(if given.washout.is_some() {
                    1
                } else {
                    wanted.min(4)
                })
            }
        };
        let period = given.length.as_secs_f64() / (cycles * arms) as f64;
        let washout =
            given.washout.map_or(WASHOUT.as_secs_f64().min(period / 4.0), |washout| washout.as_secs_f64());
        if washout >= period {
            let (period, washout) = (span(period), span(washout));
            return wrong(format!(
                "a period of {period} is not longer than the washout of {washout}; use a longer --for, fewer \
                 --periods, or a shorter --washout"
            ));
        }
        if period - washout < 1.0 {
            return wrong(format!(
                "a period of {} is too short to measure; use a longer --for",
                span(period - washout)
            ));
        }
        Ok(Schedule { units, arms, cycles, period_seconds: period, washout_seconds: washout })
    }

    pub fn periods(&self) -> usize {
        self.cycles * self.arms
    }

    /// The arm of a unit in a period.
    pub fn arm(&self, unit: usize, period: usize) -> usize {
        let cycle = period / self.arms;
        crossover::order(self.arms, unit + cycle).get(period % self.arms).copied().unwrap_or(0)
    }

    /// The number of a unit's cycle among rounds.
    pub fn round(&self, unit: usize, period: usize) -> usize {
        period / self.arms * self.units + unit
    }

    /// The units in the order in which they are restarted, each period beginning with another.
    pub fn order(&self, period: usize) -> Vec<usize> {
        vcm_measure::turns::rotated(&(0..self.units).collect::<Vec<_>>(), period)
    }

    /// False for one that `of` makes of nothing, as a damaged file may hold it.
    pub fn can_be(&self) -> bool {
        let counts = self.units > 0
            && self.arms >= 2
            && self.cycles > 0
            && self.arms.checked_mul(self.cycles).is_some_and(|periods| periods <= MOST_PERIODS);
        counts
            && is_time(self.period_seconds * MOST_PERIODS as f64)
            && is_time(self.washout_seconds)
            && self.measured_seconds() > 0.0
    }

    pub fn measured_seconds(&self) -> f64 {
        self.period_seconds - self.washout_seconds
    }
}

/// Whether a number read from a file is a time that can be waited for.
pub fn is_time(seconds: f64) -> bool {
    seconds >= 0.0 && Duration::try_from_secs_f64(seconds).is_ok()
}

/// A time as it is read, in whole seconds where it has any.
pub fn span(seconds: f64) -> String {
    let time = if seconds >= 60.0 {
        Duration::from_secs(seconds.round() as u64)
    } else {
        Duration::from_millis((seconds * 1e3).round() as u64)
    };
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(length: u64, periods: Option<usize>, washout: Option<u64>) -> Services {
        Services {
            systemd: Vec::new(),
            length: Duration::from_secs(length),
            periods,
            washout: washout.map(Duration::from_secs),
            health: None,
            yes: false,
            resume: false,
            put_back: false,
            state: "/x".into(),
            root: None,
        }
    }

    #[test]
    fn a_day_of_three_units_is_twelve_pairs_and_each_unit_has_each_arm_as_often() {
        let plan = Schedule::of(3, 2, &services(86_400, None, None)).unwrap();
        assert_eq!((plan.periods(), plan.period_seconds, plan.washout_seconds), (8, 10_800.0, 600.0));
        for unit in 0..3 {
            let firsts = (0..8).filter(|period| plan.arm(unit, *period) == 0).count();
            assert_eq!(firsts, 4);
            // AB BA AB BA: no arm is always the later one.
            let later = (0..4).filter(|cycle| plan.arm(unit, 2 * cycle + 1) == 1).count();
            assert_eq!(later, 2);
        }
        for period in 0..8 {
            let on_first = (0..3).filter(|unit| plan.arm(*unit, period) == 0).count();
            assert!((1..=2).contains(&on_first), "period {period}: {on_first} of 3");
        }
        let mut rounds: Vec<usize> = (0..3)
            .flat_map(|unit| (0..8).map(move |period| (unit, period)))
            .map(|(unit, period)| plan.round(unit, period))
            .collect();
        rounds.sort_unstable();
        rounds.dedup();
        assert_eq!(rounds.len(), 12);
    }

    #[test]
    fn a_day_of_one_unit_has_fewer_periods_than_pairs_would_need_if_they_were_shorter_than_two_washouts() {
        let plan = Schedule::of(1, 2, &services(7200, None, Some(600))).unwrap();
        assert_eq!(plan.periods(), 6);
    }

    #[test]
    fn a_period_must_be_longer_than_its_washout() {
        let told = |given| Schedule::of(3, 2, &given).unwrap_err().message;
        assert!(told(services(1200, Some(4), Some(300))).contains("is not longer than the washout"));
        assert!(told(services(600, None, Some(600))).contains("is not longer than the washout"));
        assert!(told(services(60, Some(3), None)).contains("a multiple of 2"));
        assert!(told(services(2, Some(4), None)).contains("too short"));
    }
}
