//! The parts that the command lines of `vcm` and `vcm-lab` share.
//!
//! ```text
//! say      how a message, a failure and an exit code look
//! page     text that fits the terminal
//! library  where libvcmalloc.so is
//! manual   manual pages, made from the description of a command line
//! ```

pub mod library;
pub mod manual;
pub mod page;
pub mod say;
