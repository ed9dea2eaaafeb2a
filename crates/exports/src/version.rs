//! The build of the library. `build.rs` knows it; the C API, the proof and the statistics tell it.

#[cfg(exported)]
use super::c::Name;
use super::heap;
use vcmalloc_core::base::text::{Sink, put_str};

/// Behind the number: the policy, and whether C's names are there (`build.rs`).
pub const VERSION: &str = concat!(env!("VCMALLOC_VERSION"), env!("VCMALLOC_KIND"));
#[cfg(exported)]
const BEFORE: &str = "vcmalloc version ";
/// `vcm doctor` finds the version in the library's file by the words before it.
#[cfg_attr(not(exported), used)]
static TOLD: &str = concat!("vcmalloc version ", env!("VCMALLOC_VERSION"), env!("VCMALLOC_KIND"), "\0");

#[cfg(exported)]
/// The version alone, as a C string.
pub fn c_string() -> Name {
    TOLD.get(BEFORE.len()..).unwrap_or(TOLD).as_ptr().cast()
}

/// The statistics for a reader, behind what made them.
pub fn put_statistics(sink: &mut dyn Sink) {
    put_str(sink, "vcmalloc ");
    put_str(sink, VERSION);
    put_str(sink, ": ");
    heap().put_stats_text(sink);
}
