//! Heap profiles of processes on vcmalloc: read out of a running process, named, compared, shown, written for pprof.
//!
//! ```text
//! switch            a process takes a profile for as long as somebody looks
//! read              a profile of a process, out of its memory
//! pinned            an estimate of who holds memory that cannot go back
//! table  flame      what a reader is shown: lines, and a page for a browser
//! growth  calls     two profiles compared; the stacks by the names of their functions
//! pprof  gperftools the formats that other tools read
//! symbols           names for addresses
//! mappings          which file lies at an address
//! profile           what a profile is
//! ```
//!
//! Nothing here prints, or decides when a profile begins and ends: that is `vcm profile`'s.

mod calls;
mod flame;
mod gperftools;
mod growth;
mod mappings;
mod message;
mod pinned;
mod pprof;
mod profile;
mod read;
mod switch;
mod symbols;
mod table;

pub use calls::{Call, Chain, chains};
pub use flame::page;
pub use growth::growth;
pub use profile::{Amount, Frame, Mapping, Measure, Profile, Site};
pub use read::{read, read_heap, read_pinned};
pub use switch::Switched;
pub use table::{Shape, table};
pub use vcm_report::unit::bytes;
