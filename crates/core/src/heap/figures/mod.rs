//! What the heap tells about itself.

mod counters;
mod stats;
mod text;

pub use counters::{Committed, Range, RangeState, Tiers};
pub use stats::Stats;
