//! Measurements of memory that comes back: how much a process keeps while it is idle, after a peak, under
//! long churn, and under a container's limit.
//!
//! ```text
//!   vcm-memory (watch)                                   vcm-memory-load (load), LD_PRELOAD=peer.so
//!   which cases, which allocators ──── arguments ──────► idle │ alone │ age │ churn │ ...
//!   reads /proc/PID/smaps, /proc/PID/task               then nothing: no malloc call by anybody
//!   reads the board             ◄──── shared memory ─── phase, live bytes, pages that hold a live block
//!   CSV, Markdown, SVG                                   ends when its standard input closes
//! ```
//!
//! The process that is measured never measures itself: reading /proc allocates, and an idle process has to be
//! idle. It knows best how many bytes are live, and writes that on a [`board`] that both have mapped.
//!
//! **What counts as the heap** is in [`smaps`]: private anonymous memory that is resident. The load program's
//! own memory (tables, thread stacks, the trace, the board) is all in *shared* mappings ([`shared`]), so the
//! two can be told apart from outside, whatever an allocator does.

pub mod board;
pub mod load;
pub mod pages;
pub mod shared;
pub mod smaps;
pub mod watch;
