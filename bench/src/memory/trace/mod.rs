//! Recorded allocations of a real daemon, and their form for replay.
//!
//! [`art`] reads the recording (`.art`, compressed or not). [`script`] sorts it by thread into shared memory,
//! where the load program finds it: decompression allocates, so it happens in the watcher.

pub mod art;
pub mod script;
