//! Heaps of tenants: blocks that belong to somebody, are counted and bounded as his, and can be freed all at once
//! (docs/design/heaps.md).
//!
//! Owns a table of heaps, and for each the lists of its spans. Promises that what the spans of a heap hold never passes its
//! limit or that of a heap above it, and that a block comes back to its heap from any thread. `upkeep`, `engine` and `heap`
//! call it; sits on `central`, `large` and `pages`, whose addresses it shares with the process's own heap.

mod account;
mod blocks;
mod caches;
mod charge;
mod emptying;
mod end;
mod figures;
mod large;
mod lists;
mod lives;
mod make;
mod repair;
mod spans;
mod users;
#[cfg(any(test, feature = "fake-os"))]
mod verify;
mod waiting;
mod window;
mod zombies;

pub use figures::TenantStats;
pub use make::{Made, NAME_BYTES, OnLimit};
pub use zombies::Zombie;

use crate::base::locks::{Rank, Ranked};
use crate::base::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::base::ticks::Tick;
use crate::class::{SizeClass, TABLE_LEN};
use crate::os::{Mutex, Os};
use crate::pages::{Pages, SpanId, Table};
use account::Account;
use caches::Slot;
use lists::Lists;
use lives::Life;

/// The name of a tenant's heap: its place in the table, and how often that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapId(pub u64);

impl HeapId {
    /// No heap.
    pub const NONE: HeapId = HeapId(0);
    /// The process's own.
    pub const OWN: HeapId = HeapId(1);

    const fn of(number: u32, generation: u32) -> HeapId {
        HeapId((generation as u64) << u32::BITS | number as u64)
    }

    const fn number(self) -> u32 {
        self.0 as u32
    }

    const fn generation(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }
}

/// Why a heap gives nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such heap, or not any more.
    Gone,
    /// It would pass its limit, or that of a heap above it: this one's.
    Limit(HeapId),
    /// There is no memory.
    Memory,
    /// It has heaps below it.
    HasChildren,
}

/// How a heap ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its blocks are free.
    FreeAll,
    /// They belong to the heap above it.
    HandOver,
    /// It gives no more blocks, and goes when the last one has come back.
    Drain,
    /// The same, and the program does nothing with its blocks but free them.
    Zombie,
}

/// States of an entry.
const UNUSED: u32 = 0;
const LIVE: u32 = 1;
const DRAINING: u32 = 2;
/// A thread ends it, or empties it.
const ENDING: u32 = 3;
/// It has ended, and a thread closes its spans.
const CLOSING: u32 = 4;
/// The same, and its spans wait for a thread that closes them.
const LEFT: u32 = 5;

/// So many threads are told at once that a heap is at its limit; others try again, for these may have made room.
const IN_ON_LIMIT: usize = 16;

/// Tenants' heaps. Any thread may call.
pub struct Tenants<O: Os> {
    table: Table<Tenant<O>>,
    lists: Table<Lists>,
    slots: Table<Slot<O>>,
    slot_count: AtomicU32,
    /// Entries that are, or were, `LEFT`, and are not unused yet.
    left: AtomicU32,
    longest_delay: AtomicU32,
    /// Entries that were ever in use, with the one of number 0, which nobody has.
    count: AtomicU32,
    registry: Mutex<Registry, O>,
}

/// The unused entries of both tables.
struct Registry {
    unused: u32,
    unused_lists: u32,
    lists: u32,
    unused_slots: u32,
    slots: u32,
}

impl Ranked for Registry {
    const RANK: Rank = Rank::Tenants;
}

/// One heap. Entries are zero until they are used.
#[repr(C, align(64))]
struct Tenant<O: Os> {
    /// Its name; of an unused entry that of the last heap.
    id: AtomicU64,
    /// The table of the slabs that sequences look at: of its cache, or one of empty slabs.
    slabs: AtomicUsize,
    state: AtomicU32,
    /// Counts the heaps that had this entry.
    generation: AtomicU32,
    /// The number of the heap above it; 0: the process's own. Of an unused entry the next one.
    parent: AtomicU32,
    children: AtomicU32,
    /// Bytes that its spans and those of the heaps below it may have.
    limit: AtomicUsize,
    /// Bytes that they have, and had at most.
    bytes: AtomicUsize,
    peak: AtomicUsize,
    /// Requests that the limit refused.
    refused: AtomicU64,
    /// The system's time when it was made, in nanoseconds.
    made_at: AtomicU64,
    /// The function that is told of a refusal, and its last argument; 0: none.
    on_limit: AtomicUsize,
    argument: AtomicUsize,
    /// The marks of threads that are in that function.
    in_on_limit: [AtomicUsize; IN_ON_LIMIT],
    name: [AtomicU8; NAME_BYTES],
    /// Ticks for which pages of its spans are idle before they go; 0: as the process's own.
    delay: AtomicU32,
    /// The address of the slot of its cache; 0: none.
    cache: AtomicUsize,
    /// Blocks that a policy keeps back, their bytes, and those of small ones.
    waiting_blocks: AtomicU64,
    waiting_bytes: AtomicU64,
    waiting_small: AtomicU64,
    /// Blocks that were freed since it gave no more.
    late: AtomicU64,
    /// Its blocks are to be freed only (`zombies.rs`), and how many of them were not yet.
    zombie: AtomicU32,
    left: AtomicU64,
    rooms: Mutex<Rooms, O>,
}

/// The spans of one heap.
struct Rooms {
    /// The number of each class's lists; 0: none.
    lists: [u32; TABLE_LEN],
    /// The first span of a large block.
    large: SpanId,
    large_blocks: u64,
    large_bytes: u64,
    /// Of small blocks.
    live_blocks: u64,
    live_bytes: u64,
    /// Threads that open a span for it: it does not end before they come back.
    opening: u32,
    /// Calls since the tick `counted_at`.
    calls: u32,
    counted_at: Tick,
    /// Bytes of spans that were closed since the tick `gone_at` as their blocks came back.
    gone: usize,
    gone_at: Tick,
}

impl Ranked for Rooms {
    const RANK: Rank = Rank::Tenant;
}

/// Offsets of what the fast paths read, for `cache::fast_path`.
#[cfg(target_arch = "x86_64")]
impl<O: Os> Tenants<O> {
    pub const ENTRIES: usize = core::mem::offset_of!(Self, table) + Table::<Tenant<O>>::BASE;
    pub const COUNT: usize = core::mem::offset_of!(Self, count);
    pub const ENTRY_BYTES: usize = size_of::<Tenant<O>>();
    pub const ENTRY_ID: usize = core::mem::offset_of!(Tenant<O>, id);
    pub const ENTRY_SLABS: usize = core::mem::offset_of!(Tenant<O>, slabs);
}

impl<O: Os> Tenants<O> {
    pub const fn new() -> Self {
        Tenants {
            table: Table::new(),
            lists: Table::new(),
            slots: Table::new(),
            slot_count: AtomicU32::new(0),
            left: AtomicU32::new(0),
            longest_delay: AtomicU32::new(0),
            count: AtomicU32::new(0),
            registry: Mutex::new(Registry {
                unused: 0,
                unused_lists: 0,
                lists: 0,
                unused_slots: 0,
                slots: 0,
            }),
        }
    }

    /// Whether the process ever made one.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    fn tenant(&self, number: u32) -> Option<&Tenant<O>> {
        let is_known = number != 0 && number < self.count.load(Ordering::Acquire);
        // SAFETY: entries below `count` are there as long as the process.
        is_known.then(|| unsafe { self.table.shared(number as usize) })
    }

    /// The heap of this name, while it is one.
    fn find(&self, id: HeapId) -> Option<&Tenant<O>> {
        let tenant = self.tenant(id.number())?;
        tenant.life().state_in(id.generation()).filter(|state| !is_over(*state)).map(|_| tenant)
    }

    /// The heap of this name that gives blocks.
    fn find_live(&self, id: HeapId) -> Result<&Tenant<O>, Refusal> {
        let tenant = self.tenant(id.number()).ok_or(Refusal::Gone)?;
        (tenant.life().state_in(id.generation()) == Some(LIVE)).then_some(tenant).ok_or(Refusal::Gone)
    }

    /// Whether there is such a heap, and it gives blocks.
    pub fn is_live(&self, id: HeapId) -> bool {
        self.find_live(id).is_ok()
    }

    pub fn id_of(&self, number: u32) -> HeapId {
        match self.tenant(number) {
            Some(tenant) => HeapId::of(number, tenant.generation.load(Ordering::Relaxed)),
            None => HeapId::OWN,
        }
    }

    /// Whether a thread ends the heap, or hands its blocks over.
    pub fn is_ending(&self, id: HeapId) -> bool {
        self.find(id).is_some_and(|tenant| tenant.state.load(Ordering::Acquire) == ENDING)
    }

    /// The address of a heap's entry, also when it has ended.
    pub fn entry_of(&self, id: HeapId) -> usize {
        self.tenant(id.number()).map_or(0, |tenant| core::ptr::from_ref(tenant).expose_provenance())
    }

    /// The name of the heap that the block at an address belongs to; none for blocks of the process's own.
    pub fn heap_of(&self, pages: &Pages<O>, address: usize) -> Option<HeapId> {
        self.span_and_heap_of(pages, address).map(|(_, id)| id)
    }

    /// The same with the block's span.
    fn span_and_heap_of(&self, pages: &Pages<O>, address: usize) -> Option<(SpanId, HeapId)> {
        loop {
            let (span, number) = pages.tenant_of(address)?;
            let id = self.id_of(number);
            if is_still_of(pages, span, number) {
                return Some((span, id));
            }
        }
    }

    /// The heap above a heap.
    pub fn above(&self, id: HeapId) -> HeapId {
        self.find(id).map_or(HeapId::OWN, |tenant| self.id_of(tenant.parent.load(Ordering::Relaxed)))
    }

    /// All heaps, with their numbers.
    fn all(&self) -> impl Iterator<Item = (u32, &Tenant<O>)> {
        let count = self.count.load(Ordering::Acquire);
        (1..count).filter_map(|number| Some((number, self.tenant(number)?)))
    }
}

/// Whether a span belongs to the heap of this number yet, after something of that heap was read: its entry is another heap's only
/// after the span was handed over.
fn is_still_of<O: Os>(pages: &Pages<O>, span: SpanId, number: u32) -> bool {
    // Pairs with the Release stores of what was read.
    fence(Ordering::Acquire);
    pages.span(span).heap.get() == number
}

fn is_over(state: u32) -> bool {
    [UNUSED, CLOSING, LEFT].contains(&state)
}

impl<O: Os> Tenant<O> {
    fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    fn is_unused(&self) -> bool {
        self.state.load(Ordering::Acquire) == UNUSED
    }

    /// Whether nobody's blocks are in it: it has ended, although spans of it may be open yet.
    fn is_over(&self) -> bool {
        is_over(self.state.load(Ordering::Acquire))
    }

    fn life(&self) -> Life<'_> {
        Life { state: &self.state, generation: &self.generation }
    }

    /// Whether the thread of a mark is in `on_limit`.
    fn is_in_on_limit(&self, mark: usize) -> bool {
        self.in_on_limit.iter().any(|place| place.load(Ordering::Relaxed) == mark)
    }

    /// Notes that it is; none where there are as many already as there are words.
    fn enter_on_limit(&self, mark: usize) -> Option<&AtomicUsize> {
        let takes = |place: &&AtomicUsize| {
            place.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.in_on_limit.iter().find(takes)
    }

    /// In a child, which the threads of other marks are not in.
    fn forget_others_on_limit(&self, mark: usize) {
        let others = self.in_on_limit.iter().filter(|place| place.load(Ordering::Relaxed) != mark);
        others.for_each(|place| place.store(0, Ordering::Relaxed));
    }

    fn account(&self) -> Account<'_> {
        Account { limit: &self.limit, bytes: &self.bytes, peak: &self.peak }
    }
}

impl Rooms {
    const EMPTY: Rooms = Rooms {
        lists: [0; TABLE_LEN],
        large: SpanId::NONE,
        large_blocks: 0,
        large_bytes: 0,
        live_blocks: 0,
        live_bytes: 0,
        opening: 0,
        calls: 0,
        counted_at: Tick(0),
        gone: 0,
        gone_at: Tick(0),
    };

    fn number_for(&self, class: SizeClass) -> u32 {
        self.lists.get(class.index()).copied().unwrap_or(0)
    }

    /// Whether a block of it is in use.
    fn is_empty(&self) -> bool {
        self.live_blocks == 0 && self.large_blocks == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
