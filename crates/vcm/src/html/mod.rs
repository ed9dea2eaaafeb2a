//! Pages for a browser: what several verbs show alike. Drawing is `vcm-report`'s.
//!
//! ```text
//! compared   allocators against each other: speed against memory, differences, stamps
//! traced     what a trace holds                            origin   what every page has
//! ```

pub mod compared;
mod origin;
pub mod traced;

pub use origin::{name, origin};

use crate::whole_file;
use std::path::Path;
use vcm_foreign::Shown;
use vcm_front::say::{self, Failure};
use vcm_report::Page;

/// Writes the page where one is wanted, and says where it is.
pub fn write(path: Option<&Path>, page: impl FnOnce() -> Page) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    whole_file::write(path, page().html().as_bytes())?;
    say::line(&format!("vcm: the report: {}", path.shown()));
    Ok(())
}

/// Before anything is done: that the page can be written, and not over what is read.
pub fn look(path: Option<&Path>, source: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    source.map_or(Ok(()), |source| whole_file::is_other(path, source))?;
    whole_file::look(path)
}
