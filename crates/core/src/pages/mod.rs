//! The back: address space, the page map, spans and the heap of free units.
//!
//! Owns the heap's range of addresses, mapped upwards in whole huge pages around what others have mapped there; the page map
//! (one byte a unit: the class of its blocks); the table of spans; the free runs. Promises that an address is recognised as
//! ours or not for certain, without reading it. Every layer above calls it, `central` with the lock of a class
//! held if need be; sits on `class` and `os`.

pub mod bits;
mod candidates;
mod close;
mod delayed;
mod dumps;
mod figures;
mod filled;
mod grow;
mod huge_pages;
mod kept;
mod limits;
mod map;
mod open;
mod place;
mod prefault;
mod release;
mod repair;
mod runs;
mod span;
mod table;
mod touch;
#[cfg(any(test, feature = "fake-os"))]
mod verify;
mod window;

pub use figures::{LargeStats, Mapping, PageStats, TenantSpans};
pub use grow::Place;
pub use kept::LEAST_KEPT;
pub use limits::Limits;
pub use open::OfHeap;
pub use runs::{HugePage, Run};
pub use span::{CLOSED, OPENED, SUBRELEASED, SUBRELEASING, Span, SpanId, is_idle};
pub use table::Table;

use crate::base::locks::{Growing, Rank, Ranked};
use crate::base::relaxed::RelaxedCell;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use crate::base::ticks::{AtomicTick, Tick};
use crate::class::{MIN_ALIGN, SizeClass, UNIT_BYTES};
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::{Mutex, Os};
use bits::HUGE_PAGE_UNITS;
use delayed::DelayedFrees;
use huge_pages::HugePages;
use kept::Kept;
use prefault::Prefault;
use runs::Runs;

pub const HUGE_PAGE_BYTES: usize = HUGE_PAGE_UNITS as usize * UNIT_BYTES;

const GRANULE_SHIFT: u32 = MIN_ALIGN.trailing_zeros();
const ALLOCATED_BITS: usize = u32::BITS as usize;
/// Words of `allocated` for a unit.
const ALLOCATED_PER_UNIT: usize = (UNIT_BYTES >> GRANULE_SHIFT) / ALLOCATED_BITS;
/// Bytes of the heap that a mark is about: no block of a policy that keeps marks has less memory.
pub const BYTES_PER_MARK: usize = 2 * MIN_ALIGN;
/// Bytes of `marks` for a unit.
const MARKS_PER_UNIT: usize = UNIT_BYTES / BYTES_PER_MARK;
/// Time begins late enough for "long ago" to be in it: SUBRELEASED is no time.
const FIRST_TICK: Tick = Tick(1000);

/// The back of a heap. Any thread may call.
pub struct Pages<O: Os> {
    base: AtomicUsize,
    /// Bytes of the range that are mapped or skipped, from `base` on.
    grown: AtomicUsize,
    /// `grown` in granules of 16 bytes.
    grown_granules: AtomicUsize,
    classes: Table<AtomicU8>,
    /// The address that the class of address 0 would have in the table: an address finds its own without being taken
    /// from `base`.
    class_of_unit: AtomicUsize,
    owners: Table<AtomicU32>,
    /// A bit for every 16 bytes: a block starts there that its span gave out.
    allocated: Table<AtomicU32>,
    /// A byte for every 16 bytes, for who wants to note more about blocks.
    marks: Table<AtomicU8>,
    spans: Table<Span>,
    /// Not zero: the span was touched since its idle pages went.
    candidates: Table<RelaxedCell<u8>>,
    huge: HugePages,
    /// Blocks that the heap may have; the range is longer.
    most_huge_pages: AtomicU32,
    /// Held while the heap grows, over what is asked of the system. `State`'s lock is taken inside, for an instant.
    growing: Mutex<Growing, O>,
    state: Mutex<State, O>,
    delayed: DelayedFrees,
    pub(crate) kept: Kept,
    /// The heap's time in ticks, moved by whoever keeps it.
    pub clock: AtomicTick,
    pub limits: Limits,
    /// Bytes of pages inside spans that were given back.
    released: AtomicUsize,
    /// Bytes of pages inside spans that came into use although they had been given back not before
    /// `too_soon_from`.
    came_back: AtomicU64,
    too_soon_from: AtomicTick,
    /// The 2 MiB block that is looked at next for a huge page.
    next_collapse: AtomicU32,
    huge_backed: AtomicUsize,
    prefault: Prefault,
    /// Held while units are withheld, so that no fork loses them. It guards which.
    releasing: Mutex<Withheld, O>,
    /// The system would make huge pages by itself, and early: it is told not to.
    forbid_huge_pages: AtomicBool,
    allow_huge_pages: AtomicBool,
    /// `marks` grows with the heap.
    marked: bool,
    /// For each huge page the units that are left out of core files one by one; as long as the last of them needs it.
    left_out: Table<u128>,
    leaves_out_heaps: AtomicBool,
}

/// Beginning with a cache line: the next CPU must fetch what one writes under the lock, and when fields lay across
/// lines by chance, buffers that two threads grow took a fifth more time (decision 0023).
#[repr(align(128))]
struct State {
    runs: Runs,
    unused_spans: SpanId,
    /// Descriptors that were ever in use.
    spans: u32,
    spans_open: u32,
    large: LargeStats,
    /// Spans of small blocks of tenants' heaps, and their bytes.
    tenants: TenantSpans,
    /// The most bytes of large blocks at a time since somebody asked last.
    large_most: u64,
    grown_blocks_most: u32,
    /// Units that will wait in the first block.
    waiting: u32,
    /// Places where units that are left out of core files one by one lie beside others.
    edges_left_out: u32,
}

/// Units of a huge page that are free and marked used meanwhile, or a row of huge pages. Changed with the state locked.
#[derive(Clone, Copy)]
struct Withheld {
    block: u32,
    units: u128,
    /// Huge pages behind that one which are withheld as a whole.
    more: u32,
}

impl Ranked for Withheld {
    const RANK: Rank = Rank::Releasing;
}

impl Ranked for State {
    const RANK: Rank = Rank::State;
}

impl Withheld {
    const NOTHING: Withheld = Withheld { block: 0, units: 0, more: 0 };
}

impl State {
    fn opened(&mut self, span: &Span) {
        self.spans_open += 1;
        if span.class() == SizeClass::LARGE {
            self.large_grew_by(span);
        } else if span.heap.get() != 0 {
            self.tenants.add(span);
        }
    }

    fn large_grew_by(&mut self, span: &Span) {
        self.large.add(span);
        self.large_most = self.large_most.max(self.large.bytes);
    }

    fn closed(&mut self, span: &Span) {
        self.spans_open -= 1;
        if span.class() == SizeClass::LARGE {
            self.large.remove(span);
        } else if span.heap.get() != 0 {
            self.tenants.remove(span);
        }
    }
}

impl<O: Os> Pages<O> {
    pub const fn new() -> Self {
        Pages {
            base: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
            grown_granules: AtomicUsize::new(0),
            classes: Table::new(),
            class_of_unit: AtomicUsize::new(0),
            owners: Table::new(),
            allocated: Table::new(),
            marks: Table::new(),
            spans: Table::new(),
            candidates: Table::new(),
            huge: HugePages::new(),
            most_huge_pages: AtomicU32::new(0),
            growing: Mutex::new(Growing),
            state: Mutex::new(State {
                runs: Runs::new(),
                unused_spans: SpanId::NONE,
                spans: 0,
                spans_open: 0,
                large: LargeStats::NONE,
                tenants: TenantSpans::NONE,
                large_most: 0,
                grown_blocks_most: 0,
                waiting: 0,
                edges_left_out: 0,
            }),
            delayed: DelayedFrees::new(),
            kept: Kept::new(),
            clock: AtomicTick::new(FIRST_TICK),
            limits: Limits::new(),
            released: AtomicUsize::new(0),
            came_back: AtomicU64::new(0),
            too_soon_from: AtomicTick::new(FIRST_TICK),
            next_collapse: AtomicU32::new(0),
            huge_backed: AtomicUsize::new(0),
            prefault: Prefault::new(),
            releasing: Mutex::new(Withheld::NOTHING),
            forbid_huge_pages: AtomicBool::new(false),
            allow_huge_pages: AtomicBool::new(false),
            marked: false,
            left_out: Table::new(),
            leaves_out_heaps: AtomicBool::new(false),
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        take(&self.growing);
        take(&self.releasing);
        take(&self.state);
    }
}

#[cfg(test)]
mod tests;
