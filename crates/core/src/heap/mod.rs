//! The heap: one of each layer, and the paths through them.
//!
//! Owns everything; nothing else of vcmalloc is global. Promises what malloc promises. `exports` and tests
//! call it; sits on `cache`, `large` and `options`. "The life of a malloc and a free" in docs/design tells
//! the story.

mod allocate;
mod checked;
mod emergency;
mod figures;
mod fork;
mod found;
mod free;
mod growth;
mod hardened;
mod janitor;
mod keep;
mod patience;
mod pressure;
mod reentry;
mod resize;
mod sampling;
mod settings;
mod sizes;
mod slow_path;
mod stats;
mod stop;
#[cfg(any(test, feature = "fake-os"))]
mod verify;

pub use allocate::LARGEST_REQUEST;
pub use figures::{Committed, Maintenance, Range, RangeState, Tiers};
pub use hardened::Hardened;
pub use sampling::Hooks;
pub use settings::Setup;
pub use stats::Stats;

use crate::base::fault::{Access, Maker, Misuse};
use crate::base::locks::{Exporting, Starting};
use crate::base::sync::{AtomicU32, AtomicUsize};
use crate::cache::{Below, Cache, FrontKind};
use crate::central::Central;
use crate::class::TABLE_LEN;
use crate::large::Large;
use crate::options::Options;
use crate::os::{Mutex, Os};
use crate::pages::Pages;
use crate::watch::{Guards, Profile};
use core::sync::atomic::AtomicU64;
use emergency::Emergency;
use fork::Process;
use growth::Growth;
use janitor::Janitor;
use keep::Keep;
use pressure::Pressure;
use reentry::SlowPaths;
#[cfg(target_arch = "x86_64")]
use {crate::cache::Front, core::mem::offset_of};

const NEW: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;
/// The program misused the heap: it is not touched any more, and the process runs its crash handler.
const STOPPED: u32 = 3;

/// A heap. A new one is ready to use: the first allocation starts it. Any thread may call any method; a heap
/// must not move after its first use.
pub struct Heap<O: Os> {
    cache: Cache<O>,
    pages: Pages<O>,
    state: AtomicU32,
    os: O,
    central: Central<O>,
    large: Large,
    pub options: Options,
    starting: Mutex<Starting, O>,
    /// Bytes asked for and number of requests, of the requests that reached the slow path: a sample for the
    /// waste inside blocks.
    requested: [Requested; TABLE_LEN],
    /// The bound is first set for one CPU; who needs more makes us ask the system how many there are.
    bound_is_final: AtomicU32,
    /// Options that were set where they could not take effect, a bit each.
    late_options: AtomicU32,
    fences_refused: AtomicU64,
    janitor: Janitor<O>,
    keep: Keep,
    growth: Growth,
    pressure: Pressure<O>,
    emergency: Emergency,
    slow_paths: SlowPaths,
    profile: Profile<O>,
    process: Process,
    /// The thread that was stopped for misuse.
    stopped_thread: AtomicUsize,
    guards: Guards<O>,
    /// None: nothing is ever sampled.
    hooks: Option<Hooks>,
    exporting: Mutex<Exporting, O>,
}

struct Requested {
    bytes: AtomicU64,
    count: AtomicU64,
}

/// Where the words lie that the fast paths read, for those that are written whole (`cache::whole`).
#[cfg(target_arch = "x86_64")]
impl<O: Os> Heap<O> {
    const FRONT: usize = offset_of!(Self, cache) + offset_of!(Cache<O>, front);
    const PAGES: usize = offset_of!(Self, pages);
    pub const CPUS: usize = Self::FRONT + Front::CPUS;
    pub const AREA: usize = Self::FRONT + Front::AREA;
    pub const INDEX: usize = Self::FRONT + Front::INDEX;
    pub const SLABS: usize = Self::FRONT + Front::SLABS;
    pub const DIRECT: usize = Self::FRONT + Front::DIRECT;
    pub const START: usize = Self::PAGES + Pages::<O>::START;
    pub const GROWN_GRANULES: usize = Self::PAGES + Pages::<O>::GROWN_GRANULES;
    pub const CLASS_OF_UNIT: usize = Self::PAGES + Pages::<O>::CLASS_OF_UNIT;
    pub const GIVEN: usize = Self::PAGES + Pages::<O>::GIVEN;
}

impl<O: Os> Heap<O> {
    /// No block has guard pages.
    pub const HAS_GUARD_PAGES: bool = false;

    pub const fn new(os: O) -> Self {
        Heap::build(os, None)
    }

    /// A heap that takes samples.
    pub const fn with_hooks(os: O, hooks: Hooks) -> Self {
        Heap::build(os, Some(hooks))
    }

    const fn build(os: O, hooks: Option<Hooks>) -> Self {
        Heap {
            cache: Cache::new(),
            pages: Pages::new(),
            state: AtomicU32::new(NEW),
            os,
            central: Central::new(),
            large: Large::new(),
            options: Options::new(),
            starting: Mutex::new(Starting),
            requested: [const { Requested { bytes: AtomicU64::new(0), count: AtomicU64::new(0) } };
                TABLE_LEN],
            bound_is_final: AtomicU32::new(0),
            late_options: AtomicU32::new(0),
            fences_refused: AtomicU64::new(0),
            janitor: Janitor::new(),
            keep: Keep::new(),
            growth: Growth::new(),
            pressure: Pressure::new(),
            emergency: Emergency::new(),
            slow_paths: SlowPaths::new(),
            profile: Profile::new(),
            process: Process::new(),
            stopped_thread: AtomicUsize::new(0),
            guards: Guards::new(),
            hooks,
            exporting: Mutex::new(Exporting),
        }
    }

    pub fn os(&self) -> &O {
        &self.os
    }

    fn below(&self) -> Below<'_, O> {
        Below { os: &self.os, pages: &self.pages, central: &self.central }
    }

    /// Notes which operator new made a block: what the hardened policy does, here nothing.
    #[inline(always)]
    pub fn mark(&self, _: usize, _: Maker) {}

    /// Notes which operator delete a block comes from: as `mark`.
    #[inline(always)]
    pub fn hand_over(&self, _: usize, _: Maker) {}

    /// What an access that the system refused means, if it was to memory of ours.
    pub fn explain(&self, _: usize, _: Access) -> Option<Misuse> {
        None
    }

    /// Which caches threads use.
    pub fn front_kind(&self) -> FrontKind {
        self.cache.kind()
    }
}

#[cfg(test)]
mod janitor_tests;
#[cfg(test)]
mod keep_tests;
#[cfg(test)]
mod pressure_tests;
#[cfg(test)]
mod sampling_tests;
#[cfg(test)]
mod tests;
