//! What the heap tells about itself.

mod counters;
mod stats;
mod text;

pub use counters::{Committed, Maintenance, Range, RangeState, Tiers};
pub use stats::Stats;
