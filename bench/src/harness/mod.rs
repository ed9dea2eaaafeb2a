//! The harness: which programs run under which allocators, in which order, and what is made of the numbers.
//!
//! ```text
//!   allocators ─┐
//!   plan ───────┼─► session (interleaves) ─► execute (one run, time-out, proof of the preload)
//!               │        │ CSV row a run
//!               │        ▼
//!               └─► summary (medians, ratios) ─► tables (Markdown, with their origin), picture (SVG)
//!                                                    shelf: the folder of the run that all of it goes into
//!   peers: builds the newest peers      demo: RocksDB's db_bench      instructions: the fast paths, counted
//! ```

pub mod busy;
pub mod cores;
pub mod demo;
pub mod execute;
pub mod instructions;
pub mod origin;
pub mod peers;
pub mod picture;
pub mod plan;
pub mod session;
pub mod shelf;
pub mod sizes;
pub mod summary;
pub mod surroundings;
pub mod tables;
pub mod thread_limit;
pub mod tracing;
