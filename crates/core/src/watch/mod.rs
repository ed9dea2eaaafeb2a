//! What is known about single allocations: samples with their stacks.
//!
//! Owns the table of sampled live blocks and the arena of guarded ones; promises that unsampled allocations never come
//! here, and that reading holds no lock for long. `heap` calls it with no lock held; sits on `pages` for its tables.
//! docs/design/watch.md tells the whole.

mod profile;
mod stack;
mod text;

pub use profile::{LiveSample, Profile, ProfileStats};
pub use stack::{MOST_FRAMES, Stack};

#[cfg(test)]
mod profile_tests;
