//! One piece of work of an experiment.

use std::collections::BTreeMap;

/// A point of the axes, a repetition, and the allocators in it.
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
