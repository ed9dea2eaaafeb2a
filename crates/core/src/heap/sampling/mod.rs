//! Samples: allocations that are placed and written down one by one.

mod sample;

pub use sample::Hooks;
