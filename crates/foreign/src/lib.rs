//! Hostile input: a process, a container, a trace or a name may lie, block or exhaust its reader (docs/design/foreign.md).
//!
//! ```text
//! text     what a foreigner said: it is printed escaped or not at all
//! file     files that a foreigner may have made: regular ones only, with a bound, and no open that waits
//! elf      the same for object files, of which parts are read
//! room     memory for as many bytes as a foreigner says
//! escape   which characters do something to a terminal or to a reader, and how each is written
//! ```
//!
//! Everything above asks here: no file of the tools opens a file of a container or prints a name by itself
//! (tests/foreign.rs).

pub mod elf;
mod escape;
pub mod file;
pub mod room;
mod text;

pub use escape::{clean, is_hidden};
pub use text::{Shown, Text};
