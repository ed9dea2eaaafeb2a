//! Words that were typed and cannot be meant.

use std::fmt;
use vcm_measure::allocators::{self, Allocator};

/// The error of what cannot be meant: a name that does not exist, a number out of its range, a flag that has
/// no effect.
#[derive(Debug)]
pub struct NotUnderstood(pub String);

impl fmt::Display for NotUnderstood {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NotUnderstood {}

/// Whether this error is, or comes from, what was typed.
pub fn is_not_understood(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<NotUnderstood>())
}

/// The allocator of this name.
pub fn allocator(name: &str) -> Result<&'static Allocator, NotUnderstood> {
    allocators::named(name).map_err(NotUnderstood)
}
