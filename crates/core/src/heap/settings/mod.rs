//! Start of the heap, and options while it runs.

mod apply;
mod change;
mod read;
mod start;

pub use start::Setup;
