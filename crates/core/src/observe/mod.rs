//! Observers of single allocations: the live profile, probes for tracers, the recording of calls.
//!
//! Owns the table of sampled live blocks and the rings of events; promises that what is not sampled never comes here, and that
//! reading holds no lock for long. `heap` calls it with no lock held; sits on `pages` for its tables. docs/design/watch.md
//! tells the whole.

mod probes;
mod profile;
mod recording;

pub use probes::{Probes, Probing};
pub use profile::{LiveSample, Profile, ProfileStats, Size};
pub use recording::{Recording, Wanted, layout};

#[cfg(test)]
mod profile_tests;
