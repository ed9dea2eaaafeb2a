//! The crate for Rust programs: the one heap of this crate as a global allocator, and what a program asks of it.
//!
//! Owns nothing; promises `GlobalAlloc`'s rules, and `errno` as it was.

use super::c::undisturbed;
use super::version as build;
use super::{Blocks, blocks, heap, janitor};
use core::alloc::{GlobalAlloc, Layout};
#[cfg(rust_stats)]
use core::fmt;
use core::ptr;
use vcmalloc_core::base::fault::Maker;
#[cfg(rust_stats)]
use vcmalloc_core::base::text::Sink;
use vcmalloc_core::class::MIN_ALIGN;
use vcmalloc_core::options::Refused;

pub use super::tenants::{Heap, HeapRefused, Scope};
#[cfg(rust_stats)]
pub use vcmalloc_core::heap::Stats;
pub use vcmalloc_core::heap::TenantStats as HeapStats;

/// The allocator: `#[global_allocator] static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;`. All values are one heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vcmalloc;

// SAFETY: blocks are of the size and alignment that are asked for, belong to nobody else until they are freed, and
// nothing here unwinds.
unsafe impl GlobalAlloc for Vcmalloc {
    // Not inlined: LLVM 22 crashes where it optimises some programs that this function came into (the tests of crossbeam-channel, rayon
    // and `alloc`, as released), with the sequence or without it. The other functions do no harm.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let fast = match layout.align() {
            ..=MIN_ALIGN => blocks().allocate_fast(layout.size()),
            align => blocks().allocate_aligned_fast(align, layout.size()),
        };
        match fast {
            0 => allocate_slow(layout),
            block => pointer(block),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let address = block.expose_provenance();
        let names_alignment = cfg!(hardened) && layout.align() > MIN_ALIGN;
        if names_alignment || !blocks().take_fast(address, Maker::Malloc) {
            free_slow(address, layout);
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        pointer(undisturbed(|| match layout.align() {
            ..=MIN_ALIGN => blocks().allocate_zeroed(1, layout.size()),
            align => blocks().allocate_aligned_zeroed(align, layout.size()),
        }))
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let address = block.expose_provenance();
        pointer(undisturbed(|| {
            blocks().check_alignment(address, named_align(layout));
            match layout.align() {
                ..=MIN_ALIGN => blocks().reallocate(address, bytes),
                align => blocks().reallocate_aligned(address, align, bytes),
            }
        }))
    }
}

/// The alignment of a layout for `check_alignment`: up to `MIN_ALIGN` every block has it, and none was asked for. Sizes are not
/// compared: the optimiser frees the block before a `realloc` whose block is only freed, by the layout of the one behind it.
fn named_align(layout: Layout) -> usize {
    if layout.align() > MIN_ALIGN { layout.align() } else { 0 }
}

fn pointer(block: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(block)
}

#[cold]
#[inline(never)]
fn allocate_slow(layout: Layout) -> *mut u8 {
    pointer(undisturbed(|| match layout.align() {
        ..=MIN_ALIGN => blocks().allocate_slow(layout.size()),
        align => blocks().allocate_aligned(align, layout.size()),
    }))
}

#[cold]
#[inline(never)]
fn free_slow(address: usize, layout: Layout) {
    undisturbed(|| {
        blocks().check_alignment(address, named_align(layout));
        blocks().free(address);
    });
}

/// The bytes that the program may use of a block: at least what it asked for, and all of them are kept by `realloc`.
///
/// # Safety
///
/// The block is one that [`Vcmalloc`] gave and that is not freed. With the feature `hardened` another ends the program, with a
/// line that says what it is.
#[must_use]
pub unsafe fn usable_size(block: *const u8) -> usize {
    undisturbed(|| blocks().usable_bytes(block.expose_provenance()))
}

/// The version, and what else the build is: `0.1.0+3a8591074b (Rust half)`, also with `(hardened)`.
#[must_use]
pub fn version() -> &'static str {
    build::VERSION
}

/// Gives free memory back to the system until at most `keep` bytes of it are left; the bytes given.
pub fn release(keep: usize) -> usize {
    undisturbed(|| blocks().release(keep))
}

/// Starts the thread that gives memory back while the program is idle; false where it cannot be made, or the option `janitor`
/// is off. Without it memory goes back in the course of allocations.
pub fn start_janitor() -> bool {
    janitor::vcm_janitor_start() == 0
}

/// Why an option was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionRefused {
    /// No option has this name.
    UnknownName,
    /// The option takes no such value: docs/reference/options.md has what it takes.
    BadValue,
    /// It counts when the program starts: set it in the environment.
    NotLive,
}

/// Sets an option (docs/reference/options.md) of the running program.
pub fn set_option(name: &str, value: &str) -> Result<(), OptionRefused> {
    let set = || {
        heap().set_option(name.as_bytes(), value.as_bytes()).inspect(|()| {
            janitor::end_if_off();
        })
    };
    undisturbed(set).map_err(|refused| match refused {
        Refused::UnknownName => OptionRefused::UnknownName,
        Refused::BadValue(_) => OptionRefused::BadValue,
        Refused::NotLive => OptionRefused::NotLive,
    })
}

/// The figures of the heap.
#[cfg(rust_stats)]
pub fn stats() -> Stats {
    undisturbed(|| heap().stats())
}

/// The statistics as people read them: `println!("{}", vcmalloc::statistics_text())`.
#[cfg(rust_stats)]
pub fn statistics_text() -> impl fmt::Display {
    Text(build::put_statistics)
}

/// The statistics as JSON.
#[cfg(rust_stats)]
pub fn statistics_json() -> impl fmt::Display {
    Text(|sink| heap().put_stats_json(sink))
}

#[cfg(rust_stats)]
struct Text(fn(&mut dyn Sink));

#[cfg(rust_stats)]
impl fmt::Display for Text {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces = Pieces { to, outcome: Ok(()) };
        (self.0)(&mut pieces);
        pieces.outcome
    }
}

/// A formatter as a place for text, which is ASCII.
#[cfg(rust_stats)]
struct Pieces<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    outcome: fmt::Result,
}

#[cfg(rust_stats)]
impl Sink for Pieces<'_, '_> {
    fn put(&mut self, bytes: &[u8]) {
        let text = core::str::from_utf8(bytes).unwrap_or("?");
        self.outcome = self.outcome.and_then(|()| self.to.write_str(text));
    }
}

/// Starts the live heap profile anew, a sample each `interval` bytes; false where there is no memory for its tables.
#[cfg(rust_profile)]
pub fn start_profile(interval: u64) -> bool {
    undisturbed(|| heap().start_profile(interval))
}

/// Ends the profile; it can be written until the next start.
#[cfg(rust_profile)]
pub fn stop_profile() {
    heap().stop_profile();
}

/// Writes what lives, in the form that pprof reads; false where the file cannot be written.
#[cfg(rust_profile)]
pub fn write_profile(path: &core::ffi::CStr) -> bool {
    undisturbed(|| heap().write_profile(path))
}
