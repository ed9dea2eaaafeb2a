//! The ways of a block to the program and back.
//!
//! `allocate`, `free` and `resize` are the calls. Each slow one stands in a `slow_path`, inside which `take` and `give` work; `short` serves those that need none.

mod allocate;
mod free;
mod give;
mod keyed;
mod resize;
mod short;
mod sizes;
mod slow_path;
mod take;
mod whole;

#[cfg(target_arch = "x86_64")]
pub use keyed::KEYED_BYTES;
pub use take::LARGEST_REQUEST;
