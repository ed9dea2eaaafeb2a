//! Recorded allocations of a real daemon, and their form for replay.
//!
//! [`recording`] reads them by the crate `vcm-trace`. [`script`] sorts them by thread into shared memory, where the load
//! program finds them: decompression allocates, so it happens in the watcher.

pub mod recording;
pub mod script;
pub mod step;
