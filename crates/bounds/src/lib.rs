//! How little memory the blocks of a trace could have taken, by different rules of where a block is put. Nothing is run:
//! a page counts while a block that lives has a byte in it.
//!
//! ```text
//! bounds      the trace twice: lifetimes, then all rules side by side
//! lifetimes   how long each object lives, in allocations
//! pools       spans of blocks of one size, as ours are cut
//! best_fit    chunks beside each other, as glibc cuts them
//! pages       how many live blocks touch each page
//! ```
//!
//! docs/design/bounds.md says what the rules leave out. Single-threaded; holds some hundred bytes for each block that
//! lives, and a byte for each that ever did.

mod best_fit;
mod bounds;
mod lifetimes;
mod pages;
mod pools;

pub use bounds::{Bounds, Figures, Moment, RULES, Rule, bounds};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
