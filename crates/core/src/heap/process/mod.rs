//! The process that the heap is in: its children, its signal handlers, and its end where it misuses the heap.

mod abort;
mod deferred;
mod emergency;
mod fork;
mod found;
mod janitor;
mod lending;
mod orders;
mod reentry;
mod words;

pub use deferred::Deferred;
pub use emergency::Emergency;
pub use fork::Process;
pub use found::Found;
pub use lending::Lent;
pub use orders::Orders;
pub use words::Speaker;
