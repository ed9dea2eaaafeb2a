//! Samples: allocations that are placed and written down one by one.

mod probes;
mod profile;
mod rate;
mod sample;
mod stack;

pub(crate) use probes::FORGOTTEN;
pub use sample::Hooks;
