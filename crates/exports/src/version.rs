//! Which build of the library this is. `build.rs` knows it; the C API, the proof and the statistics tell it.

#[cfg(exported)]
use super::c::Name;
use super::heap;
use vcmalloc_core::base::text::{Sink, put_str};

// What a library is beside its version, wherever that is told. The crate without its feature `override` has no names of C's.
#[cfg(all(exported, not(hardened)))]
macro_rules! kind {
    () => {
        ""
    };
}
#[cfg(all(exported, hardened))]
macro_rules! kind {
    () => {
        " (hardened)"
    };
}
#[cfg(all(not(exported), not(hardened)))]
macro_rules! kind {
    () => {
        " (Rust half)"
    };
}
#[cfg(all(not(exported), hardened))]
macro_rules! kind {
    () => {
        " (Rust half) (hardened)"
    };
}

pub const VERSION: &str = concat!(env!("VCMALLOC_VERSION"), kind!());
#[cfg(exported)]
const BEFORE: &str = "vcmalloc version ";
/// `vcm doctor` finds the version in the library's file by the words before it.
#[cfg_attr(not(exported), used)]
static TOLD: &str = concat!("vcmalloc version ", env!("VCMALLOC_VERSION"), kind!(), "\0");

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
