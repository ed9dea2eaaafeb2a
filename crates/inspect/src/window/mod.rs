//! The statistics of a process on vcmalloc, read out of its memory while it runs or stands (docs/design/window.md).
//!
//! ```text
//! orders      asks a process for something, through its letter box
//! seen        which process is meant, and why it cannot be seen
//! snapshot    the figures at a moment
//! residence   what of the heap is in memory
//! counters    the heap's numbers, whole or marked
//! layout      where they lie
//! memory      the process's memory, and the note that leads there
//! ```

mod counters;
mod layout;
mod memory;
pub mod orders;
mod residence;
mod seen;
mod snapshot;

pub use seen::{Seen, find};
pub use snapshot::{Class, Resident, Setting, Snapshot};

#[cfg(test)]
mod tests;
