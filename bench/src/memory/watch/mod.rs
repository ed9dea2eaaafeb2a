//! The watcher: starts the measured process on each allocator, looks at it from outside, and writes what it
//! saw.
//!
//! ```text
//!   allocators ─┐
//!   case ───────┼─► session (interleaves) ─► subject (one child: board, smaps, time limit) ─► run, samples
//!               │        │ CSV row a sample         └ cgroup, for `container`
//!   verbs/* ────┘        ▼
//!                 report: Markdown table, SVG of memory over time
//! ```
//!
//! Children end with the watcher, whatever ends it: their standard input closes, and the kernel is asked to
//! end them.

pub mod report;
pub mod run;
pub mod session;
pub mod subject;
pub mod verbs;
