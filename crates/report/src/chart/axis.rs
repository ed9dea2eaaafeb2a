//! Axes, and names with a colour.

use crate::colour::Colour;

/// The size of all text.
pub const TEXT: f64 = 13.0;

/// A name with its colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub name: String,
    pub colour: Colour,
}

#[derive(Clone, Debug, Default)]
pub struct Axis {
    pub name: String,
    /// As `unit` knows it.
    pub unit: String,
    pub better: Better,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
    #[default]
    Neither,
}

impl Axis {
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better) -> Axis {
        Axis { name: name.into(), unit: unit.into(), better }
    }

    pub fn with_unit(&self, unit: &str) -> String {
        [self.name.as_str(), unit].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

impl Name {
    pub fn new(name: impl Into<String>, colour: Colour) -> Name {
        Name { name: name.into(), colour }
    }
}
