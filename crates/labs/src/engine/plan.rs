//! From a declaration to the list of cells, in the order in which they are run.
//!
//! Owns that order. Promises that allocators take turns (no allocator has all its repetitions in a row), that
//! their order rotates with the repetition, and that axes which need a new cluster vary slowest.

use super::experiment::{Axis, Experiment, Pairing};
use std::collections::BTreeMap;

/// One piece of work: a point of the axes, a repetition, and the allocators in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub axes: BTreeMap<String, String>,
    /// From 0.
    pub repetition: u32,
    /// One with `Pairing::Turns`, all with `Pairing::Together`.
    pub allocators: Vec<&'static str>,
    pub quick: bool,
}

impl Cell {
    /// The value of an axis.
    pub fn text(&self, axis: &str) -> &str {
        self.axes.get(axis).map_or("", String::as_str)
    }

    /// The value of an axis that holds numbers; 0 if it does not.
    pub fn number(&self, axis: &str) -> u64 {
        self.text(axis).parse().unwrap_or(0)
    }

    pub fn is_on(&self, axis: &str) -> bool {
        self.text(axis) == "on"
    }

    /// The only allocator of a cell in turns.
    pub fn allocator(&self) -> &'static str {
        self.allocators[0]
    }

    /// For progress lines.
    pub fn tell(&self) -> String {
        let mut words: Vec<String> =
            self.axes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if self.allocators.len() == 1 {
            words.insert(0, self.allocators[0].to_owned());
        }
        words.push(format!("repetition {}", self.repetition + 1));
        words.join(", ")
    }
}

/// What of the declaration is run.
pub struct Choice {
    pub quick: bool,
    pub repetitions: Option<u32>,
    pub allocators: Vec<&'static str>,
}

pub fn cells(experiment: &Experiment, choice: &Choice) -> Vec<Cell> {
    let plan = if choice.quick { &experiment.quick } else { &experiment.full };
    let repetitions = choice.repetitions.unwrap_or(plan.repetitions);
    let (outer, inner): (Vec<&Axis>, Vec<&Axis>) = experiment.axes.iter().partition(|axis| axis.setup);
    let mut cells = Vec::new();
    for setup in points(&outer, choice.quick) {
        for repetition in 0..repetitions {
            let allocators = rotated(&choice.allocators, repetition);
            for varied in points(&inner, choice.quick) {
                let axes: BTreeMap<_, _> = setup.iter().chain(&varied).cloned().collect();
                let cell =
                    |allocators| Cell { axes: axes.clone(), repetition, allocators, quick: choice.quick };
                match experiment.pairing {
                    Pairing::Together => cells.push(cell(allocators.clone())),
                    Pairing::Turns => cells.extend(allocators.iter().map(|one| cell(vec![*one]))),
                }
            }
        }
    }
    cells.retain(|cell| (experiment.skip)(cell).is_none());
    cells
}

fn rotated(allocators: &[&'static str], by: u32) -> Vec<&'static str> {
    let mut rotated = allocators.to_vec();
    if !rotated.is_empty() {
        rotated.rotate_left(by as usize % allocators.len());
    }
    rotated
}

/// All combinations of the axes' values; one empty combination if there are no axes.
fn points(axes: &[&Axis], quick: bool) -> Vec<Vec<(String, String)>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let values = if quick { axis.quick } else { axis.full };
        let with = |point: &Vec<(String, String)>, value: &str| {
            let mut point = point.clone();
            point.push((axis.name.to_owned(), value.to_owned()));
            point
        };
        points.iter().flat_map(|point| values.iter().map(|value| with(point, value))).collect()
    })
}
