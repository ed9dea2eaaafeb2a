//! Knowledge about single allocations: samples with their stacks.
//!
//! Owns the table of sampled live blocks, the arena of guarded ones and the addresses of blocks of no bytes; promises that unsampled allocations
//! never come here, and that reading holds no lock for long. `heap` calls it with no lock held; sits on
//! `pages` for its tables. docs/design/watch.md tells the whole.

mod empty;
mod guards;
mod modules;
mod probes;
mod profile;
mod recording;
mod report;
mod slot;
mod stack;
mod text;

pub use empty::{Empties, Empty};
pub use guards::{GuardStats, Guards};
pub use probes::{Probes, Probing};
pub use profile::{LiveSample, Profile, ProfileStats, Size};
pub use recording::{Recording, Wanted, layout};
pub use slot::Trace;
pub use stack::{MOST_FRAMES, Stack};

#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod profile_tests;
