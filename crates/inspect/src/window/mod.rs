//! The statistics of a process on vcmalloc, read out of its memory while it runs or stands (docs/design/window.md).
//!
//! ```text
//! recording   the rings of a process that is recorded while it runs
//! orders      asks a process for something, through its mailbox
//! watched     looks again and again that cost little
//! samples     what its live profile has
//! seen        which process is meant, and why it cannot be seen
//! snapshot    the figures at a moment
//! pages       what costs of a look, kept for later ones
//! residence   what of the heap is in memory
//! heaps       the heaps of tenants
//! counters    the heap's numbers, whole or marked
//! layout      where they lie
//! memory      the process's memory, and the note that leads there
//! ```

mod counters;
mod heaps;
mod layout;
mod memory;
pub mod orders;
mod pages;
pub mod recording;
mod residence;
mod samples;
mod seen;
mod snapshot;
mod watched;

pub use heaps::{Figures, Heaps, OfName, TenantHeap};
pub use pages::Resident;
pub use samples::{OfStack, Sample, Samples, Sum};
pub use seen::{Ours, Seen, find, is_number, is_on_ours, named, ours, rust_half, why_forbidden};
pub use snapshot::{Class, Giver, Setting, Snapshot};
pub use watched::Watched;

#[cfg(test)]
mod tests;

/// Memory of this very process, read as another's would be: for the tests with lying windows.
#[cfg(any(test, feature = "testing"))]
pub fn of_own(at: u64) -> std::io::Result<(Snapshot, Samples)> {
    let process = crate::process::Process::new(std::process::id() as i32);
    let memory = memory::Memory::of(&process)?;
    match layout::Layout::read(&memory, at)? {
        layout::Found::Layout(layout) => {
            Ok((Snapshot::take(&process, &memory, &layout)?, Samples::read(&memory, &layout)?))
        }
        layout::Found::Version(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}
