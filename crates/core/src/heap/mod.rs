//! The heap: one of each layer, and the paths through them.
//!
//! Owns everything; nothing else of vcmalloc is global. Promises what malloc promises. `exports` and tests
//! call it; sits on all other layers. "The life of a malloc and a free" in docs/design tells
//! the story.

mod blocks;
mod figures;
mod hardened;
mod paths;
mod process;
mod recording;
mod sampling;
mod settings;
#[cfg(any(test, feature = "fake-os"))]
mod verify;

pub use crate::cache::FrontReason;
pub use blocks::Blocks;
pub use figures::{Committed, Range, RangeState, Stats, Tiers, Window};
pub use hardened::Hardened;
pub use paths::LARGEST_REQUEST;
pub use process::Lent;
pub use sampling::Hooks;
pub use settings::Setup;

use crate::base::locks::{Exporting, Starting};
use crate::base::sync::{AtomicU32, AtomicUsize};
use crate::cache::{self, Cache, FrontKind};
use crate::central::Central;
#[cfg(target_arch = "x86_64")]
use crate::class::SizeClass;
use crate::class::TABLE_LEN;
use crate::large::Large;
use crate::options::Options;
use crate::os::{Mutex, Os};
use crate::pages::Pages;
use crate::upkeep::{self, Upkeep};
use crate::watch::{Empties, Guards, Probes, Probing, Profile, Recording};
use core::sync::atomic::AtomicU64;
use figures::Quarantined;
use process::{Deferred, Emergency, Found, Orders, Process, Speaker};
#[cfg(target_arch = "x86_64")]
use {
    crate::cache::{Front, Sampling},
    core::mem::offset_of,
};

const NEW: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;
/// The program misused the heap: it is not touched any more, and the process runs its crash handler.
const ABORTING: u32 = 3;

/// A heap. A new one is ready to use: the first allocation starts it. Any thread may call any method; a heap
/// must not move after its first use.
pub struct Heap<O: Os> {
    cache: Cache<O>,
    pages: Pages<O>,
    state: AtomicU32,
    os: O,
    central: Central<O>,
    large: Large,
    /// The key that freed blocks carry (`paths::keyed`); 0 if they carry none.
    free_key: AtomicUsize,
    pub options: Options,
    starting: Mutex<Starting, O>,
    /// Bytes asked for and number of requests, of the requests that reached the slow path: a sample for the
    /// waste inside blocks.
    requested: [Requested; TABLE_LEN],
    /// Options that were set where they could not take effect, a bit each.
    late_options: AtomicU32,
    upkeep: Upkeep<O>,
    found: Found,
    emergency: Emergency,
    deferred: Deferred,
    profile: Profile<O>,
    probing: Probing,
    process: Process,
    /// The thread that aborts for its misuse; 0 while there is none.
    aborting_thread: AtomicUsize,
    /// Its process: another one may share this memory.
    aborting_process: AtomicU64,
    guards: Guards<O>,
    /// Blocks of no bytes.
    empties: Empties,
    /// None: nothing is ever sampled.
    hooks: Option<Hooks>,
    exporting: Mutex<Exporting, O>,
    orders: Orders,
    speaker: Speaker<O>,
    recording: Recording,
    quarantined: Quarantined,
}

struct Requested {
    bytes: AtomicU64,
    count: AtomicU64,
}

/// Offsets of the words that the fast paths read, for those that are written whole (`cache::whole`).
#[cfg(target_arch = "x86_64")]
impl<O: Os> Heap<O> {
    const FRONT: usize = offset_of!(Self, cache) + offset_of!(Cache<O>, front);
    const SAMPLING: usize = offset_of!(Self, cache) + offset_of!(Cache<O>, sampling);
    const PAGES: usize = offset_of!(Self, pages);
    pub const CPUS: usize = Self::FRONT + Front::CPUS;
    pub const AREA: usize = Self::FRONT + Front::AREA;
    pub const INDEX: usize = Self::FRONT + Front::INDEX;
    pub const SLABS: usize = Self::FRONT + Front::SLABS;
    pub const DIRECT: usize = Self::FRONT + Front::DIRECT;
    pub const COUNTS_EACH: usize = Self::SAMPLING + Sampling::COUNTS_EACH;
    pub const CELLS: usize = Self::SAMPLING + Sampling::CELLS_LEFT;
    pub const LAST_CELL: usize = Sampling::LAST_CELL;
    pub const CELL_SHIFT: u32 = Sampling::CELL_SHIFT;
    pub const KEY: usize = offset_of!(Self, free_key);
    pub const LAST_KEYED: usize = SizeClass::computed(paths::KEYED_BYTES).index();
    pub const START: usize = Self::PAGES + Pages::<O>::START;
    pub const GROWN_GRANULES: usize = Self::PAGES + Pages::<O>::GROWN_GRANULES;
    pub const CLASS_OF_UNIT: usize = Self::PAGES + Pages::<O>::CLASS_OF_UNIT;
    pub const ALLOCATED: usize = Self::PAGES + Pages::<O>::ALLOCATED;
}

impl<O: Os> Heap<O> {
    pub const fn new(os: O) -> Self {
        Heap::build(os, None)
    }

    /// A heap that takes samples.
    pub const fn with_hooks(os: O, hooks: Hooks) -> Self {
        Heap::build(os, Some(hooks))
    }

    /// The same heap, with probes for tracers.
    pub const fn with_probes(mut self, probes: Probes) -> Self {
        self.probing = Probing::of(probes);
        self
    }

    const fn build(os: O, hooks: Option<Hooks>) -> Self {
        Heap {
            cache: Cache::new(),
            pages: Pages::new(),
            state: AtomicU32::new(NEW),
            os,
            central: Central::new(),
            large: Large::new(),
            free_key: AtomicUsize::new(0),
            options: Options::new(),
            starting: Mutex::new(Starting),
            requested: [const { Requested { bytes: AtomicU64::new(0), count: AtomicU64::new(0) } };
                TABLE_LEN],
            late_options: AtomicU32::new(0),
            upkeep: Upkeep::new(),
            found: Found::new(),
            emergency: Emergency::new(),
            deferred: Deferred::new(),
            profile: Profile::new(),
            probing: Probing::new(),
            process: Process::new(),
            aborting_thread: AtomicUsize::new(0),
            aborting_process: AtomicU64::new(0),
            guards: Guards::new(),
            empties: Empties::new(),
            hooks,
            exporting: Mutex::new(Exporting),
            orders: Orders::new(),
            speaker: figures::write_last_words::<O>,
            recording: Recording::new(),
            quarantined: Quarantined::new(),
        }
    }

    pub fn os(&self) -> &O {
        &self.os
    }

    /// The address of the heap in the policy at `policy`.
    pub const fn heap_of(policy: *const Self) -> *const Heap<O> {
        policy
    }

    fn below_cache(&self) -> cache::Below<'_, O> {
        cache::Below { os: &self.os, pages: &self.pages, central: &self.central }
    }

    #[inline]
    fn below_upkeep(&self) -> upkeep::Below<'_, O> {
        upkeep::Below {
            os: &self.os,
            options: &self.options,
            pages: &self.pages,
            central: &self.central,
            large: &self.large,
            cache: &self.cache,
        }
    }

    /// The kind of cache that threads use.
    pub fn front_kind(&self) -> FrontKind {
        self.cache.kind()
    }

    /// The library that registers threads for the sequences, or the reason why they are not used.
    pub fn front_reason(&self) -> FrontReason {
        self.cache.reason()
    }

    /// Threads cannot be registered by ourselves, because somebody else does it.
    pub fn leave_registration_to_others(&self) {
        self.cache.leave_to_others();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
