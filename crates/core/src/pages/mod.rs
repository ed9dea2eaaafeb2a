//! The back: address space, the page map, spans and the heap of free units.
//!
//! Owns the heap's range of addresses, mapped upwards in whole 2 MiB blocks; the page map (one byte a unit: the class
//! of its blocks); the table of spans; the free runs. Promises that an address is recognised as ours or not for
//! certain, without reading it. `central` and `large` call it, with their own locks held if need be; sits on `class`
//! and `os`.

pub mod bits;
mod give_back;
mod limits;
mod repair;
mod runs;
mod span;
mod table;
#[cfg(any(test, feature = "fake-os"))]
mod verify;

pub use limits::Limits;
pub use runs::{Block, Run, is_since};
pub use span::{Span, SpanId, TIDY, is_idle};
pub use table::Table;

use crate::base::round_up;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::class::{MIN_ALIGN, SizeClass, UNIT_BYTES, UNIT_SHIFT};
use crate::os::{Guard, HugePages, MapRefusal, Mutex, Os};
use bits::BLOCK_UNITS;
use core::mem::offset_of;
use runs::{Blocks, Runs};

pub const BLOCK_BYTES: usize = BLOCK_UNITS as usize * UNIT_BYTES;

/// Descriptors for a range of so many units: one for each where that is cheap, and for larger ranges enough to fill all
/// of memory with the smallest spans (the range is eight times as long, see `Os::address_budget`).
const fn spans_for(units: usize) -> usize {
    const CHEAP: usize = 1 << 20;
    if units <= CHEAP {
        units
    } else if units / 8 > CHEAP {
        units / 8
    } else {
        CHEAP
    }
}
const GRANULE_SHIFT: u32 = MIN_ALIGN.trailing_zeros();
const GIVEN_BITS: usize = u32::BITS as usize;
/// Words of `given` for a unit.
const GIVEN_PER_UNIT: usize = (UNIT_BYTES >> GRANULE_SHIFT) / GIVEN_BITS;
const LEAST_RANGE: usize = 64 << 20;
/// The range starts at a multiple of this where it is long enough; no larger alignment can be asked for.
const MOST_ALIGN: usize = 1 << 30;
/// Time begins late enough for "long ago" to be in it: TIDY is no time.
const FIRST_TICK: u32 = 1000;
/// Blocks of the range that may be skipped in one growth because somebody else lives there.
const MOST_SKIPPED: u32 = 512;

/// The back of a heap. Any thread may call.
pub struct Pages<O: Os> {
    base: AtomicUsize,
    /// Bytes of the range that are mapped or skipped, from `base` on.
    grown: AtomicUsize,
    /// The same in granules of 16 bytes.
    grown_granules: AtomicUsize,
    classes: Table<u8>,
    /// Where the table would have the class of address 0: an address finds its own without being taken from `base`.
    class_of_unit: AtomicUsize,
    owners: Table<u32>,
    /// A bit for every 16 bytes: a block starts there that its span gave out.
    given: Table<u32>,
    spans: Table<Span>,
    blocks: Table<Block>,
    state: Mutex<State, O>,
    /// The heap's time in ticks, moved by whoever keeps it.
    pub clock: AtomicU32,
    pub limits: Limits,
    /// Bytes of pages inside spans that were given back.
    released: AtomicUsize,
    /// Bytes of pages inside spans that came into use although they had been given back not before `too_soon_from`.
    came_back: AtomicU64,
    too_soon_from: AtomicU32,
    /// The 2 MiB block that is looked at next for a huge page.
    next_collapse: AtomicU32,
    huge_blocks: AtomicUsize,
    /// Held while units are withheld, so that no fork loses them.
    giving_back: Mutex<(), O>,
    /// The system would make huge pages by itself, and early: it is told not to.
    forbid_huge_pages: AtomicBool,
    allow_huge_pages: AtomicBool,
    /// `given` is about calls of malloc and free, not about spans: a block in a cache is not given.
    given_by_call: AtomicBool,
}

struct State {
    runs: Runs,
    unused_spans: SpanId,
    /// Descriptors that were ever in use.
    spans: u32,
    spans_open: u32,
    grown_blocks_most: u32,
}

/// A snapshot of the counters of this layer, in bytes unless named otherwise.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PageStats {
    pub mapped: u64,
    pub used: u64,
    pub dirty_free: u64,
    pub spans_open: u64,
    /// Pages inside spans that were given back.
    pub released: u64,
    pub huge: u64,
}

// SAFETY: blocks are reached only by the holder of `state`, and the table is long enough for `Runs::blocks`.
unsafe impl Blocks for Table<Block> {
    fn block(&self, number: u32) -> *mut Block {
        self.at(number as usize)
    }
}

/// Where the words lie that `class_of_given` reads, for `cache::whole`.
impl<O: Os> Pages<O> {
    pub const START: usize = offset_of!(Self, base);
    pub const GROWN_GRANULES: usize = offset_of!(Self, grown_granules);
    pub const CLASS_OF_UNIT: usize = offset_of!(Self, class_of_unit);
    pub const GIVEN: usize = offset_of!(Self, given) + Table::<u32>::BASE;
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
            given: Table::new(),
            spans: Table::new(),
            blocks: Table::new(),
            state: Mutex::new(State {
                runs: Runs::new(),
                unused_spans: SpanId::NONE,
                spans: 0,
                spans_open: 0,
                grown_blocks_most: 0,
            }),
            clock: AtomicU32::new(FIRST_TICK),
            limits: Limits::new(),
            released: AtomicUsize::new(0),
            came_back: AtomicU64::new(0),
            too_soon_from: AtomicU32::new(FIRST_TICK),
            next_collapse: AtomicU32::new(0),
            huge_blocks: AtomicUsize::new(0),
            giving_back: Mutex::new(()),
            forbid_huge_pages: AtomicBool::new(false),
            allow_huge_pages: AtomicBool::new(false),
            given_by_call: AtomicBool::new(false),
        }
    }

    /// Finds a range for the heap and reserves its tables, smaller ones where the system is tight.
    pub fn start(&self, os: &O) -> bool {
        let mut bytes = round_up(os.address_budget().max(LEAST_RANGE), BLOCK_BYTES);
        while bytes >= LEAST_RANGE {
            if self.start_with(os, bytes) {
                // Where every touched block would become a huge page at once, small programs would hold 2 MiB.
                let rule = os.huge_pages();
                self.forbid_huge_pages.store(rule == HugePages::Always, Ordering::Relaxed);
                self.allow_huge_pages.store(rule != HugePages::Never, Ordering::Relaxed);
                return true;
            }
            bytes = round_up(bytes / 4, BLOCK_BYTES);
        }
        false
    }

    fn start_with(&self, os: &O, bytes: usize) -> bool {
        let units = bytes >> UNIT_SHIFT;
        let align = MOST_ALIGN.min(bytes.next_power_of_two() / 4);
        let Some(range) = os.free_range(bytes + align) else { return false };
        let started = self.classes.start(os, units)
            && self.owners.start(os, units)
            && self.given.start(os, units * GIVEN_PER_UNIT)
            && self.spans.start(os, spans_for(units))
            && self.blocks.start(os, bytes / BLOCK_BYTES);
        if started {
            let base = round_up(range, align);
            self.class_of_unit
                .store((self.classes.range().0).wrapping_sub(base >> UNIT_SHIFT), Ordering::Relaxed);
            self.base.store(base, Ordering::Release);
        } else {
            self.stop(os);
        }
        started
    }

    /// Undoes `start`, before anything was allocated.
    pub fn stop(&self, os: &O) {
        self.classes.stop(os);
        self.owners.stop(os);
        self.given.stop(os);
        self.spans.stop(os);
        self.blocks.stop(os);
    }

    /// The class of the blocks at an address: NONE where there is no block of ours. Reads nothing at the address.
    #[inline(always)]
    pub fn class_of(&self, address: usize) -> SizeClass {
        self.class_in_range(address).unwrap_or(SizeClass::NONE)
    }

    /// The same; none for an address outside the range.
    #[inline(always)]
    pub fn class_in_range(&self, address: usize) -> Option<SizeClass> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        if offset >= self.grown.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the table of classes is as long as the grown part of the range. The byte may change under us only
        // if the caller does not own the block it asks about; then any answer is as good.
        Some(SizeClass::from_byte(unsafe { self.classes.at(offset >> UNIT_SHIFT).read_volatile() }))
    }

    /// The class of the block that starts at an address and that its span gave out: what `free` asks. None for an address
    /// inside a block, for a block that nobody can have, for large blocks and outside the range.
    #[inline(always)]
    pub fn class_of_given(&self, address: usize) -> Option<SizeClass> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        // Turned, so that an address that is no multiple of 16 lies beyond every bound.
        let granule = offset.rotate_right(GRANULE_SHIFT);
        if granule >= self.grown_granules.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: both tables are as long as the grown part of the range. What we read changes under us only if the
        // caller does not own the block it asks about.
        unsafe {
            let given = self.given.at(granule / GIVEN_BITS).read_volatile();
            if given & 1 << (granule % GIVEN_BITS) == 0 {
                return None;
            }
            // Not from the granule: the class is what the caller waits for, the bit is checked beside it.
            Some(SizeClass::from_byte(self.classes.at(offset >> UNIT_SHIFT).read_volatile()))
        }
    }

    /// Notes that the block at an address was given out by its span, or came back. The caller holds the lock of the class:
    /// no word has bits of two spans.
    #[inline]
    pub fn note_given(&self, address: usize, given: bool) {
        if self.is_given_by_call() {
            return;
        }
        let granule = (address - self.base.load(Ordering::Relaxed)) >> GRANULE_SHIFT;
        let bit = 1 << (granule % GIVEN_BITS);
        // SAFETY: the table is as long as the grown part of the range, and the word belongs to the class's lock.
        unsafe {
            let word = self.given.at(granule / GIVEN_BITS);
            let others = word.read() & !bit;
            word.write_volatile(if given { others | bit } else { others });
        }
    }

    /// From now on `hand_out` and `take_back` say what is given. Before the first block.
    pub fn give_by_call(&self) {
        self.given_by_call.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_given_by_call(&self) -> bool {
        self.given_by_call.load(Ordering::Relaxed)
    }

    /// Notes that malloc gives the block at an address to the program.
    pub fn hand_out(&self, address: usize) {
        let (word, bit) = self.given_bit(address);
        word.fetch_or(bit, Ordering::Relaxed);
    }

    /// Notes that the program gives the block at an address back; false where it does not have it. Of two threads that try,
    /// one succeeds.
    pub fn take_back(&self, address: usize) -> bool {
        let (word, bit) = self.given_bit(address);
        word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    fn given_bit(&self, address: usize) -> (&AtomicU32, u32) {
        let granule = (address - self.base.load(Ordering::Relaxed)) >> GRANULE_SHIFT;
        // SAFETY: the table is as long as the grown part of the range and lives as long as the heap. All writers of a heap
        // that is `given_by_call` are atomic.
        (unsafe { AtomicU32::from_ptr(self.given.at(granule / GIVEN_BITS)) }, 1 << (granule % GIVEN_BITS))
    }

    /// The span of an address in a part of the range that belongs to a span.
    pub fn span_of(&self, address: usize) -> Option<SpanId> {
        if self.class_of(address) == SizeClass::NONE {
            return None;
        }
        let unit = self.unit_of(address);
        // SAFETY: the table of owners is as long as the grown part of the range.
        let owner = unsafe { self.owners.at(unit as usize).read_volatile() };
        Some(SpanId(owner)).filter(|_| (owner as usize) < self.spans.usable())
    }

    #[inline(always)]
    pub fn unit_of(&self, address: usize) -> u32 {
        ((address - self.base.load(Ordering::Relaxed)) >> UNIT_SHIFT) as u32
    }

    #[inline(always)]
    pub fn address_of(&self, unit: u32) -> usize {
        self.base.load(Ordering::Relaxed) + ((unit as usize) << UNIT_SHIFT)
    }

    /// The descriptor of a span. What may be read and written there is said at `Span`.
    #[inline(always)]
    pub fn span(&self, id: SpanId) -> *mut Span {
        self.spans.at(id.0 as usize)
    }

    /// A new span for blocks of `class`, all of them free.
    pub fn open_span(&self, os: &O, class: SizeClass) -> Option<SpanId> {
        let units = class.shape().span_units;
        self.open(os, class, Place { units, align: 1, room: 0 }).map(|(id, _)| id)
    }

    /// A new large span of `units`, at a multiple of `align` units; and whether its memory reads as zeros.
    pub fn open_large(&self, os: &O, units: u32, align: u32) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, Place { units, align, room: 0 })
    }

    /// The same where the span can grow to `room` units in place, as long as nobody takes those behind it. Anywhere if
    /// there is no such place.
    pub fn open_large_with_room(&self, os: &O, units: u32, room: u32) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, Place { units, align: 1, room })
    }

    fn open(&self, os: &O, class: SizeClass, place: Place) -> Option<(SpanId, bool)> {
        let units = place.units;
        if units as usize > self.classes.capacity() || !self.fits_limits(os, units as usize * UNIT_BYTES) {
            return None;
        }
        let mut state = self.state.lock();
        // Once more under the lock: several threads may have passed the look without it.
        if self.footprint_of(&state).saturating_add(units as usize * UNIT_BYTES)
            > self.limits.hard().unwrap_or(usize::MAX)
        {
            return None;
        }
        let id = self.unused_span(os, &mut state)?;
        let Some(run) = self.take_run(os, &mut state, place) else {
            self.recycle_span(&mut state, id);
            return None;
        };
        state.spans_open += 1;
        // SAFETY: the descriptor came from the list of unused spans, so nobody else uses it.
        unsafe {
            (*self.span(id)).open(class, run.start, units, run.zeroed);
            (*self.span(id)).touched_at = self.clock.load(Ordering::Relaxed);
        }
        self.admit_to_dumps(os, &mut state, run.start, units);
        self.set_owner(run.start, units, class, id);
        Some((id, run.zeroed))
    }

    fn take_run(&self, os: &O, state: &mut Guard<'_, State, O>, place: Place) -> Option<Run> {
        let Place { units, align, room } = place;
        if room > units
            && let Some(run) = state.runs.take_with_room(&self.blocks, units, room)
        {
            return Some(run);
        }
        if let Some(run) = state.runs.take(&self.blocks, units, align) {
            return Some(run);
        }
        if !self.base.load(Ordering::Relaxed).is_multiple_of((align as usize) << UNIT_SHIFT) {
            return None;
        }
        let aligned = units.checked_add(align - 1)?;
        let wanted = if align <= BLOCK_UNITS { units.max(1) } else { aligned };
        self.grow(os, state, wanted.div_ceil(BLOCK_UNITS));
        // Growth may have added less than hoped but next to free blocks.
        state.runs.take(&self.blocks, units, align)
    }

    /// Maps at least `needed` further blocks in a row; fewer system calls for larger heaps.
    fn grow(&self, os: &O, state: &mut Guard<'_, State, O>, needed: u32) {
        let mut step = needed.max((state.runs.blocks / 16).min(32));
        let mut skipped = 0;
        while self.prepare_blocks(os, state.runs.blocks, step) {
            let first = state.runs.blocks;
            let address = self.address_of(first * BLOCK_UNITS);
            match os.map_at(address, step as usize * BLOCK_BYTES) {
                Ok(()) => {
                    if self.forbid_huge_pages.load(Ordering::Relaxed) {
                        os.forbid_huge_pages(address, step as usize * BLOCK_BYTES);
                    }
                    return self.add_blocks(state, step, true);
                }
                Err(_) if step > needed => step = needed,
                Err(MapRefusal::Taken) if skipped < MOST_SKIPPED => {
                    let skip = needed.min(8);
                    self.add_blocks(state, skip, false);
                    skipped += skip;
                }
                Err(_) => return,
            }
        }
    }

    /// Makes the tables long enough for `step` more blocks.
    fn prepare_blocks(&self, os: &O, blocks: u32, step: u32) -> bool {
        let after = blocks as usize + step as usize;
        let units = after * BLOCK_UNITS as usize;
        after <= self.blocks.capacity()
            && self.classes.ensure(os, units)
            && self.owners.ensure(os, units)
            && self.given.ensure(os, units * GIVEN_PER_UNIT)
            && self.blocks.ensure(os, after)
    }

    fn add_blocks(&self, state: &mut Guard<'_, State, O>, count: u32, ours: bool) {
        for _ in 0..count {
            state.runs.add_block(&self.blocks, ours);
        }
        let grown = state.runs.blocks as usize * BLOCK_BYTES;
        self.grown_granules.store(grown >> GRANULE_SHIFT, Ordering::Release);
        self.grown.store(grown, Ordering::Release);
        state.grown_blocks_most = state.runs.blocks;
    }

    fn set_owner(&self, start: u32, units: u32, class: SizeClass, id: SpanId) {
        // A large span is known by its first unit; the others only say that they are no place to start.
        let owned = if class == SizeClass::LARGE { 1 } else { units };
        for unit in start..start + units {
            // SAFETY: the units are in the grown part and belong to the span that is being opened or closed.
            unsafe { self.classes.at(unit as usize).write_volatile(class.byte()) };
        }
        for unit in start..start + owned {
            // SAFETY: as above.
            unsafe { self.owners.at(unit as usize).write_volatile(id.0) };
        }
    }

    fn unused_span(&self, os: &O, state: &mut Guard<'_, State, O>) -> Option<SpanId> {
        let id = state.unused_spans;
        if id != SpanId::NONE {
            // SAFETY: unused spans belong to the holder of the state.
            state.unused_spans = unsafe { (*self.span(id)).next };
            return Some(id);
        }
        let fresh = state.spans;
        if fresh as usize >= self.spans.capacity() || !self.spans.ensure(os, fresh as usize + 1) {
            return None;
        }
        state.spans += 1;
        Some(SpanId(fresh))
    }

    fn recycle_span(&self, state: &mut Guard<'_, State, O>, id: SpanId) {
        // SAFETY: the span is not open, so its descriptor belongs to the holder of the state.
        unsafe {
            (*self.span(id)).class = SizeClass::NONE;
            (*self.span(id)).next = state.unused_spans;
        }
        state.unused_spans = id;
    }

    /// Gives a span's units back to the free runs, as free since tick `at`. Nobody else may know the span any more.
    pub fn close_span(&self, id: SpanId, at: u32) {
        let mut state = self.state.lock();
        self.close_under_lock(&mut state, id, at);
    }

    /// Closes the span of the large block at an address; false where another thread has done so since the caller looked.
    pub fn close_large(&self, id: SpanId, address: usize, at: u32) -> bool {
        let mut state = self.state.lock();
        let is_open = self.class_of(address) == SizeClass::LARGE && self.span_of(address) == Some(id);
        if is_open {
            self.close_under_lock(&mut state, id, at);
        }
        is_open
    }

    fn close_under_lock(&self, state: &mut Guard<'_, State, O>, id: SpanId, at: u32) {
        // SAFETY: an open span of the caller's: nobody else closes it, the lock is held.
        let (start, units, released) =
            unsafe { ((*self.span(id)).start, (*self.span(id)).units, (*self.span(id)).released_bytes()) };
        self.count_released(released, 0);
        self.set_owner(start, units, SizeClass::NONE, SpanId::NONE);
        state.spans_open -= 1;
        state.runs.put(&self.blocks, start, units, at);
        self.recycle_span(state, id);
    }

    /// Lets a large span grow into the units behind it; tells whether the new part reads as zeros.
    pub fn extend_large(&self, os: &O, id: SpanId, more: u32) -> Option<bool> {
        if !self.fits_limits(os, more as usize * UNIT_BYTES) {
            return None;
        }
        let mut state = self.state.lock();
        // SAFETY: large spans belong to the holder of the state.
        let span = unsafe { &mut *self.span(id) };
        let zeroed = state.runs.extend(&self.blocks, span.start, span.units, more)?;
        let first = span.start + span.units;
        span.units += more;
        self.admit_to_dumps(os, &mut state, first, more);
        for unit in first..first + more {
            // SAFETY: the units have just become this span's.
            unsafe { self.classes.at(unit as usize).write_volatile(SizeClass::LARGE.byte()) };
        }
        Some(zeroed)
    }

    /// Gives the last units of a large span back to the free runs.
    pub fn shrink_large(&self, id: SpanId, units: u32) {
        let mut state = self.state.lock();
        // SAFETY: large spans belong to the holder of the state.
        let span = unsafe { &mut *self.span(id) };
        let (first, fewer) = (span.start + units, span.units - units);
        span.units = units;
        for unit in first..first + fewer {
            // SAFETY: the units are this span's until the next line.
            unsafe { self.classes.at(unit as usize).write_volatile(SizeClass::NONE.byte()) };
        }
        state.runs.put(&self.blocks, first, fewer, self.clock.load(Ordering::Relaxed));
    }

    pub fn stats(&self) -> PageStats {
        let state = self.state.lock();
        let unit = UNIT_BYTES as u64;
        PageStats {
            mapped: state.runs.blocks as u64 * BLOCK_BYTES as u64 - state.runs.lost * unit,
            used: state.runs.used * unit,
            dirty_free: state.runs.dirty_free * unit,
            spans_open: state.spans_open as u64,
            released: self.released.load(Ordering::Relaxed) as u64,
            huge: self.huge_blocks.load(Ordering::Relaxed) as u64 * BLOCK_BYTES as u64,
        }
    }

    /// Bytes of the range that were ever mapped.
    #[inline]
    pub fn mapped_bytes(&self) -> usize {
        self.grown.load(Ordering::Relaxed)
    }

    /// Bytes of the whole range, mapped or not.
    pub fn range_bytes(&self) -> usize {
        self.classes.capacity() * UNIT_BYTES
    }

    /// An upper bound of the bytes that the heap's blocks hold in memory.
    pub fn footprint(&self) -> usize {
        self.footprint_of(&self.state.lock())
    }

    fn footprint_of(&self, state: &Guard<'_, State, O>) -> usize {
        let units = (state.runs.used + state.runs.dirty_free) as usize;
        (units * UNIT_BYTES).saturating_sub(self.released.load(Ordering::Relaxed))
    }

    /// Counts pages inside spans that were given back, or came into use again.
    pub fn count_released(&self, before: usize, after: usize) {
        self.released.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Notes that pages came into use again that were given back at tick `at`.
    pub fn count_returned(&self, bytes: usize, at: u32) {
        if is_since(at, self.too_soon_from.load(Ordering::Relaxed)) {
            self.came_back.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes that the program ever needed again soon after they were given back. What was given back before tick `from`
    /// counts no more from now on.
    pub fn came_back(&self, from: u32) -> u64 {
        self.too_soon_from.store(from, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.runs.too_soon_from = from;
        state.runs.came_back * UNIT_BYTES as u64 + self.came_back.load(Ordering::Relaxed)
    }

    /// Bytes of free memory that nobody needed since this was asked last.
    pub fn low_water(&self) -> usize {
        self.state.lock().runs.low_water() as usize * UNIT_BYTES
    }

    /// Bytes of free memory.
    pub fn dirty_free_bytes(&self) -> usize {
        self.state.lock().runs.dirty_free as usize * UNIT_BYTES
    }

    /// Bytes of pages inside spans that were given back.
    pub fn released_bytes(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }

    /// Descriptors of spans that were ever in use.
    pub fn span_count(&self) -> u32 {
        self.state.lock().spans
    }

    /// The same where this thread, the only one, may hold the lock: the number grows, and descriptors below it exist.
    pub fn span_count_unlocked(&self) -> u32 {
        // SAFETY: a number that is read whole; by the caller's situation nobody else writes it.
        unsafe { (&raw const (*self.state.as_ptr()).spans).read_volatile() }
    }

    /// Calls `take` for every open span.
    pub fn each_span(&self, mut take: impl FnMut(SpanId, &Span)) {
        let count = self.state.lock().spans;
        for id in (0..count).map(SpanId) {
            // SAFETY: descriptors below the count exist. They may change while we read: the caller wants a picture.
            let span = unsafe { &*self.span(id) };
            if span.class != SizeClass::NONE {
                take(id, span);
            }
        }
    }

    /// The free units of a 2 MiB block and those units of it that may hold memory; none past the last block.
    pub fn free_units_of(&self, number: u32) -> Option<(u128, u128)> {
        let state = self.state.lock();
        if number >= state.runs.blocks {
            return None;
        }
        // SAFETY: blocks belong to the holder of the state.
        let block = unsafe { &*self.blocks.at(number as usize) };
        Some((!block.used, block.dirty))
    }

    /// Address and bytes of every part of the range and of the tables that can be in memory.
    pub fn each_mapping(&self, mut take: impl FnMut(Mapping, usize, usize)) {
        let (blocks, base) = (self.grown.load(Ordering::Acquire), self.base.load(Ordering::Relaxed));
        if blocks > 0 {
            take(Mapping::Blocks, base, blocks);
        }
        for (start, bytes) in [
            self.classes.range(),
            self.owners.range(),
            self.given.range(),
            self.spans.range(),
            self.blocks.range(),
        ] {
            if bytes > 0 {
                take(Mapping::Metadata, start, bytes);
            }
        }
    }

    /// Takes the lock across `fork`.
    pub fn hold(&self) {
        self.giving_back.hold();
        self.state.hold();
    }

    /// # Safety
    /// After `hold` by this thread, in the parent.
    pub unsafe fn release(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.state.release();
            self.giving_back.release();
        }
    }

    /// # Safety
    /// After `hold`, in the forked child.
    pub unsafe fn reset(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.state.reset();
            self.giving_back.reset();
        }
    }
}

/// Where a new span is to lie, in units.
#[derive(Clone, Copy)]
struct Place {
    units: u32,
    align: u32,
    /// Units that should be free from its start on, its own among them.
    room: u32,
}

/// What a mapping of the heap holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    Blocks,
    Metadata,
}

#[cfg(test)]
mod tests;
