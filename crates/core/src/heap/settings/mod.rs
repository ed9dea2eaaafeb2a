//! Start of the heap, and options while it runs.

mod start;

pub use start::Setup;
