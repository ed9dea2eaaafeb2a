//! Measurements of vcmalloc and its peers.
//!
//! ```text
//!   vcm-bench (harness)                               vcm-load (load)
//!   plan: which cells          LD_PRELOAD=peer.so     pattern ─► malloc/free of that peer
//!   session: who runs when   ───────────────────────► one JSON line: time, CPU, memory,
//!   tables, picture, CSV     ◄───────────────────────   and which object malloc came from
//! ```
//!
//! `programs` runs whole programs instead of the load program, proved by the witness of `vcm-measure`.
//!
//! The list of allocators, children, turns, statistics and pictures are those of the crate `vcm-measure`, which the
//! labs use too.
//!
//! Two programs, so that nothing of the harness (its heap, its threads, its start-up footprint) is in the
//! process that is measured. They share only [`report::Report`].

pub mod harness;
pub mod load;
pub mod memory;
pub mod programs;
pub mod report;
