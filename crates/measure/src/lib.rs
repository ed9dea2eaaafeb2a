//! Running programs under each allocator in turn, and what is made of the numbers. The benchmarks and the labs are
//! built on it.
//!
//! ```text
//!   allocators ─► turns (who runs when) ─► child (one run, time limit, what it used)
//!                                              │
//!   machine (where it was) ─► a page ◄─ statistics, picture (SVG)
//! ```
//!
//! `nearest` suggests names, `tell` is how text leaves a program. A module uses none of the others but `nearest`,
//! `statistics` and `allocators`, which gives pictures their colours.

pub mod allocators;
pub mod child;
pub mod machine;
pub mod nearest;
pub mod picture;
pub mod statistics;
pub mod tell;
pub mod turns;
