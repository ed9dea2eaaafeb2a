//! The heap: an engine, its policy, its observers, and the calls that go through them.
//!
//! Owns everything; nothing else of vcmalloc is global. Promises what malloc promises. `exports`, `hardened`
//! and tests call it; sits on all other layers but `hardened`. "The life of a malloc and a free" in docs/design tells
//! the story.

mod above;
mod allocate;
mod blocks;
mod figures;
mod frame;
mod free;
mod janitor;
mod mailbox;
mod owners;
mod recording;
mod requests;
mod resize;
mod sample;
mod sampling;
mod settings;
mod sizes;
mod slow_path;
mod start;
mod tenants;
#[cfg(any(test, feature = "fake-os"))]
mod verify;
mod watched_tenants;
mod words;

pub use crate::base::stack::Stack;
pub use crate::cache::FrontReason;
pub use crate::engine::{Hooks, LARGEST_REQUEST, Lent};
pub use crate::tenants::{Ending, HeapId, Made, NAME_BYTES, OnLimit, Refusal, TenantStats};
pub use blocks::Blocks;
pub use figures::{Committed, Range, RangeState, Stats, Tiers, Window};
pub use start::Setup;

use crate::base::locks::Exporting;
use crate::engine::Engine;
use crate::observe::{Probes, Probing, Profile, Recording};
use crate::os::{Mutex, Os};
use crate::policy::Keys;
use core::ops::Deref;
use figures::Quarantined;
use mailbox::Mailbox;
use words::Writer;
#[cfg(target_arch = "x86_64")]
use {
    crate::cache::{Front, Sampling},
    crate::class::SizeClass,
    crate::pages::Pages,
    crate::policy::KEYED_BYTES,
    crate::tenants::Tenants,
    core::mem::offset_of,
};

/// A heap. A new one is ready to use: the first allocation starts it. Any thread may call any method; a heap
/// must not move after its first use. The methods of its engine are its own.
pub struct Heap<O: Os> {
    pub(crate) engine: Engine<O>,
    pub(crate) keys: Keys,
    pub(crate) profile: Profile<O>,
    pub(crate) probing: Probing,
    recording: Recording,
    pub(crate) exporting: Mutex<Exporting, O>,
    mailbox: Mailbox,
    writer: Writer<O>,
    pub(crate) quarantined: Quarantined,
}

impl<O: Os> Deref for Heap<O> {
    type Target = Engine<O>;

    #[inline(always)]
    fn deref(&self) -> &Engine<O> {
        &self.engine
    }
}

/// Offsets of the words that the fast paths read, for those that are written whole (`cache::fast_path`).
#[cfg(target_arch = "x86_64")]
impl<O: Os> Heap<O> {
    const FRONT: usize = offset_of!(Self, engine.floors.cache.front);
    const SAMPLING: usize = offset_of!(Self, engine.floors.cache.sampling);
    const PAGES: usize = offset_of!(Self, engine.floors.store.pages);
    const TENANTS: usize = offset_of!(Self, engine.floors.tenants);
    pub const CPUS: usize = Self::FRONT + Front::CPUS;
    pub const AREA: usize = Self::FRONT + Front::AREA;
    pub const INDEX: usize = Self::FRONT + Front::INDEX;
    pub const SLABS: usize = Self::FRONT + Front::SLABS;
    pub const DIRECT: usize = Self::FRONT + Front::DIRECT;
    pub const SCOPE: usize = Self::FRONT + Front::SCOPE;
    pub const COUNTS_EACH: usize = Self::SAMPLING + Sampling::COUNTS_EACH;
    pub const IS_WATCHED: usize = Self::SAMPLING + Sampling::IS_WATCHED;
    pub const CELLS: usize = Self::SAMPLING + Sampling::CELLS_LEFT;
    pub const LAST_CELL: usize = Sampling::LAST_CELL;
    pub const CELL_SHIFT: u32 = Sampling::CELL_SHIFT;
    pub const KEY: usize = offset_of!(Self, keys) + Keys::KEY;
    pub const LAST_KEYED: usize = SizeClass::computed(KEYED_BYTES).index();
    pub const START: usize = Self::PAGES + Pages::<O>::START;
    pub const GROWN_GRANULES: usize = Self::PAGES + Pages::<O>::GROWN_GRANULES;
    pub const CLASS_OF_UNIT: usize = Self::PAGES + Pages::<O>::CLASS_OF_UNIT;
    pub const ALLOCATED: usize = Self::PAGES + Pages::<O>::ALLOCATED;
    pub const OWNERS: usize = Self::PAGES + Pages::<O>::OWNERS;
    pub const SPANS: usize = Self::PAGES + Pages::<O>::SPANS;
    pub const ENTRIES: usize = Self::TENANTS + Tenants::<O>::ENTRIES;
    pub const ENTRY_COUNT: usize = Self::TENANTS + Tenants::<O>::COUNT;
    pub const ENTRY_BYTES: usize = Tenants::<O>::ENTRY_BYTES;
    pub const ENTRY_ID: usize = Tenants::<O>::ENTRY_ID;
    pub const ENTRY_SLABS: usize = Tenants::<O>::ENTRY_SLABS;
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
            engine: Engine::new(os, hooks),
            keys: Keys::new(),
            profile: Profile::new(),
            probing: Probing::new(),
            recording: Recording::new(),
            exporting: Mutex::new(Exporting),
            mailbox: Mailbox::new(),
            writer: figures::write_last_words::<O>,
            quarantined: Quarantined::new(),
        }
    }

    /// The address of the heap in the policy at `policy`.
    pub const fn heap_of(policy: *const Self) -> *const Heap<O> {
        policy
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
