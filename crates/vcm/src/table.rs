//! The measurements: of every arm the trials by round, of every measure its values.

use std::collections::BTreeMap;
use vcm_measure::arm::Arm;
use vcm_measure::crossover::{self, Pair};
use vcm_measure::paired::{self, Difference};
use vcm_measure::spoken::{Better, Reading};
use vcm_measure::trial::Trial;

pub struct Runs {
    pub arm: Arm,
    /// By round; a stopped one is missing.
    pub trials: BTreeMap<usize, Trial>,
    /// Why it runs no more.
    pub failed: Option<String>,
    /// Of what takes turns while others do too: the period of each round. Else empty.
    pub periods: BTreeMap<usize, usize>,
}

pub struct Table {
    pub runs: Vec<Runs>,
}

/// A measure that is compared, as readings name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    pub name: String,
    pub unit: &'static str,
    pub better: Better,
}

impl Table {
    pub fn new(arms: Vec<Arm>) -> Table {
        let runs = |arm| Runs { arm, trials: BTreeMap::new(), failed: None, periods: BTreeMap::new() };
        Table { runs: arms.into_iter().map(runs).collect() }
    }

    /// Those with something to compare: the first of them is what the others are compared with.
    pub fn finished(&self) -> Vec<&Runs> {
        self.runs.iter().filter(|runs| runs.failed.is_none() && !runs.trials.is_empty()).collect()
    }

    /// Every measure of the finished, in the order in which they were told.
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures: Vec<Measure> = Vec::new();
        for reading in
            self.finished().iter().flat_map(|runs| runs.trials.values()).flat_map(|trial| &trial.readings)
        {
            if !measures.iter().any(|measure| measure.is_of(reading)) {
                let Reading { name, unit, better, .. } = reading;
                measures.push(Measure { name: name.clone(), unit, better: *better });
            }
        }
        measures
    }

    pub fn measure(&self, name: &str) -> Option<Measure> {
        self.measures().into_iter().find(|measure| measure.name == name)
    }
}

impl Runs {
    pub fn values(&self, measure: &Measure) -> BTreeMap<usize, f64> {
        let value = |trial: &Trial| {
            trial.readings.iter().find(|reading| measure.is_of(reading)).map(|found| found.value)
        };
        self.trials.iter().filter_map(|(round, trial)| Some((*round, value(trial)?))).collect()
    }

    /// By how much this differs from another, of the rounds that both finished.
    pub fn difference(&self, from: &Runs, measure: &Measure) -> Option<Difference> {
        let (own, other) = (self.values(measure), from.values(measure));
        if !self.periods.is_empty() {
            let pair = |(round, second): (&usize, &f64)| {
                let periods = (*from.periods.get(round)?, *self.periods.get(round)?);
                Some(Pair { first: *other.get(round)?, second: *second, periods })
            };
            return crossover::difference(&own.iter().filter_map(pair).collect::<Vec<_>>());
        }
        let pairs = own.iter().filter_map(|(round, value)| Some((*other.get(round)?, *value)));
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
        paired::difference(&first, &second)
    }
}

impl Measure {
    fn is_of(&self, reading: &Reading) -> bool {
        self.name == reading.name && self.better == reading.better
    }
}
