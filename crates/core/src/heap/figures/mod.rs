//! What the heap tells about itself.

mod classes;
mod counters;
mod stats;
mod text;

pub use counters::{Committed, Range, RangeState, Tiers};
pub use stats::Stats;
