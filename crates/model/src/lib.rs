//! The throughput that the shared parts of the heap allow many CPUs.
//!
//! ```text
//!   tape     a trace as calls in one order, each on its seat
//!   system   Linux with so many CPUs, of which the run says which one it stands on
//!   counts   locks taken and held, requests of the system
//!   drive    runs a tape on a heap of the core over that system
//!   stepper  sees which lines of memory go from one CPU to another, by instruction; lines: where each is
//!   pair     two real threads on a preloaded allocator, to be stepped through
//!   machine  the hand-over of a line between two CPUs of this machine
//!   laws     what follows: demands, saturation points, bounds
//!   patterns which traces there are, and what is run on each; page: what came of it
//! ```
//!
//! docs/design/model.md says why it is so. A process runs one tape, on one thread.

mod counts;
pub mod drive;
pub mod laws;
mod lines;
pub mod machine;
pub mod page;
pub mod pair;
pub mod patterns;
pub mod seen;
#[cfg(target_arch = "x86_64")]
mod stepper;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_stepper.rs"]
mod stepper;
mod system;
pub mod tape;
mod ticks;
