//! Text that leaves a program: results on stdout, everything else on stderr.
//!
//! Promises that neither ends a run: a reader of stdout that went away (`| head`) is no failure, a full disk behind it
//! is an error, and a line for the operator that cannot be written is lost. Whatever stands in a text, only its own ends
//! of lines and tabs reach a terminal as they are.

use anyhow::{Context, Result};
use std::io::{self, ErrorKind, Write};
use vcm_foreign::clean;

/// A result, on stdout.
pub fn result(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    written(out.write_all(clean(text).as_bytes()).and_then(|()| out.flush()))
}

/// The outcome of writing a result to stdout.
pub fn written(done: io::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write the result"),
    }
}

/// A line for the operator, on stderr.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean(text));
}

/// `1 OSD`, `3 OSDs`.
pub fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
