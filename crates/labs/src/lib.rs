//! Labs: real storage daemons on this machine, each under every allocator.
//!
//! ```text
//! vcm lab gluster detach
//!     |
//!   LABS ── Lab "gluster" ── Experiment "detach": one readable declaration
//!     |                                     |
//!   engine: plans the cells, runs them, collects rows, judges controls, writes the pages;
//!           all of it in namespaces of its own; files are in the undo journal before they exist
//! ```
//!
//! A lab uses `engine`, never another lab. `vcm-lab` (`main`, `arguments`, `list`) is the caller.

pub mod ceph;
pub mod engine;
pub mod gluster;

pub use engine::lab::{Lab, Tool};

/// Every lab there is.
pub static LABS: &[&Lab] = &[&ceph::LAB, &gluster::LAB];

/// The measurements without a cluster, on something that is named: `vcm lab TOOL OPERAND`.
pub static TOOLS: &[&Tool] = &[&ceph::journal_test::JOURNAL_TEST];
