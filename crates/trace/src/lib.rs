//! Traces of what a process allocated and freed, by thread.
//!
//! ```text
//!   Writer --> preamble | epoch | epoch | ... | index      Reader --> one epoch at a time, by thread
//!                                                          order  --> its events, each object begun before it ends
//! ```
//!
//! docs/reference/trace-format.md describes the bytes, docs/design/trace.md why they are as they are. Nothing here is
//! shared between threads; a `Writer` and a `Reader` hold one epoch, about a MiB, whatever the length of the trace.

pub mod art;
mod block;
mod cut;
mod error;
mod event;
pub mod gperftools;
mod order;
mod raw;
mod reader;
mod summary;
mod thinned;
mod varint;
mod writer;

pub use block::{Header, MAJOR, MINOR};
pub use cut::{Part, cut};
pub use error::Error;
pub use event::{Event, Item, Object, PROCESS, StreamId};
pub use order::in_order;
pub use raw::{RawEpoch, RawSection};
pub use reader::{Epoch, Reader, Section, Timed};
pub use summary::{Moment, OfThread, Summary, summarize};
pub use thinned::Thinned;
pub use writer::{Writer, Written};

/// Functions that fail here fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
