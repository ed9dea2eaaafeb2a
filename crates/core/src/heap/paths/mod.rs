//! The ways of a block to the program and back.
//!
//! `take` and `give` are what is done inside a slow path, `slow_path` is what each stands in, and the others are the calls.

mod allocate;
mod checked;
mod free;
mod give;
mod keyed;
mod resize;
mod sizes;
mod slow_path;
mod take;
mod whole;

#[cfg(target_arch = "x86_64")]
pub use keyed::KEYED_BYTES;
pub use take::LARGEST_REQUEST;
