//! The ways of a block to the program and back.

mod allocate;
mod checked;
mod free;
mod resize;
mod sizes;
mod slow_path;

pub use allocate::LARGEST_REQUEST;
