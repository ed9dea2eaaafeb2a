//! Observers of single allocations: the live profile and probes, which see samples; the recording, which sees each call.
//!
//! Owns the table of sampled live blocks and the rings of events; promises that profile and probes are told of samples only, and
//! that reading holds no lock for long. `heap` calls it with no lock of a lower floor held; sits on `pages` for its tables.
//! docs/design/watch.md tells the whole, and how another one is added.

mod probes;
mod profile;
mod recording;

pub use probes::{Probes, Probing};
pub use profile::{LiveSample, Profile, ProfileStats, Size};
pub use recording::{Recording, Wanted, layout};

#[cfg(test)]
mod profile_tests;
