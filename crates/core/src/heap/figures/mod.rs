//! What the heap tells about itself.

mod classes;
mod counters;
mod stats;
mod text;
mod window;

pub use counters::{Committed, Range, RangeState, Tiers};
pub use stats::Stats;
pub use window::Window;
