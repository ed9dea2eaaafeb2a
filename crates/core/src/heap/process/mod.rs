//! The process that the heap is in: its children, its signal handlers, and its end where it misuses the heap.

mod abort;
mod emergency;
mod fork;
mod found;
mod janitor;
mod reentry;

pub use emergency::Emergency;
pub use fork::Process;
pub use found::Found;
pub use reentry::SlowPaths;
