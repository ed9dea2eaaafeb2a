//! The tool's side of recording: memory that is shared with the process, its events in the order of their times, a trace of them.
//!
//! ```text
//! Memory (shared) --> rings --> drain: sorted up to a time that nobody can go behind --> ages --> vcm_trace::Writer
//! ```
//!
//! The rings are memory of the tool that the interposer maps, or (`remote`) memory of a process that runs on vcmalloc.
//! Owns no process: its starter gives it the variable of [`Memory`]. docs/design/record.md says how.

mod ages;
mod clock;
mod drain;
#[path = "../../core/src/observe/recording/layout.rs"]
#[allow(dead_code, reason = "the recorded process uses the rest")]
mod layout;
mod memory;
mod remote;
mod rings;

pub use ages::{Ages, Seen};
pub use clock::best as best_clock;
pub use drain::{Drain, Round};
pub use layout::{NAME_BYTES, VARIABLE};

/// The place in the header of the rings of the stamp until which a recording goes on that was begun by an order.
pub const UNTIL_AT: u64 = std::mem::offset_of!(layout::Header, until) as u64;
pub use memory::Memory;
pub use remote::{Place, Remote, patience};
