//! Running programs under each allocator in turn, and what is made of the numbers. The benchmarks, the labs and
//! `vcm compare` are built on it.
//!
//! ```text
//!   allocators ─► arm ─► turns (who runs when) ─► child (one run, time limit, what it used)
//!                                              └► trial (a command, or a server and its load), tree (all its processes)
//!                                                    │
//!   machine (where it was) ─► a page ◄─ statistics, paired, crossover (things that take turns while they run)
//! ```
//!
//! `stop` and `progress` are what a long run needs of its terminal: a way to end it, and a view of how far it is.
//! `spoken` reads what load programs print, `stamp` says what an allocator is, `nearest` suggests names, `tell` is how
//! text leaves a program. tests/layers_of_tools.rs has the order of the files.

pub mod allocators;
pub mod arm;
pub mod child;
pub mod crossover;
pub mod group;
pub mod machine;
pub mod nearest;
pub mod paired;
pub mod progress;
pub mod replace;
pub mod spoken;
pub mod stamp;
pub mod statistics;
pub mod stop;
pub mod tell;
pub mod tree;
pub mod trial;
pub mod turns;
pub mod witness;
