//! From a declaration to the list of cells, in the order in which they are run.
//!
//! Owns that order. Promises that allocators take turns (no allocator has all its repetitions in a row), that
//! their order rotates with the repetition, and that axes which need a new cluster vary slowest.

use super::cell::Cell;
use super::experiment::{Axis, Experiment, Pairing};
use std::collections::BTreeMap;
use vcm_measure::turns::rotated;

/// The part of the declaration that is run.
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
            let allocators = rotated(&choice.allocators, repetition as usize);
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
