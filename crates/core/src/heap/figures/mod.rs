//! The heap's figures about itself.

mod classes;
mod columns;
mod counters;
mod heaps;
mod last_words;
mod quarantined;
mod stats;
mod text;
mod window;

pub use counters::{Committed, Range, RangeState, Tiers};
pub use last_words::write as write_last_words;
pub use quarantined::Quarantined;
pub use stats::Stats;
pub use window::Window;
