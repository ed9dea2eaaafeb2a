//! The counters of this layer, and walks over what it has.

use super::{HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, Pages, Span, SpanId, State};
use crate::base::PAGE_BYTES;
use crate::base::sync::Ordering;
use crate::base::ticks::Tick;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};

/// A snapshot of the counters of this layer, in bytes unless named otherwise.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PageStats {
    pub mapped: u64,
    pub used: u64,
    pub dirty_free: u64,
    pub spans_open: u64,
    pub large: LargeStats,
    pub tenants: TenantSpans,
    /// Pages inside spans that were given back.
    pub released: u64,
    pub huge: u64,
}

/// The memory of large blocks. Each is a span.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LargeStats {
    pub blocks: u64,
    /// Bytes of the runs.
    pub bytes: u64,
    /// Bytes that were asked for when the blocks took their units, or gave units back.
    pub requested: u64,
}

impl LargeStats {
    pub(super) const NONE: LargeStats = LargeStats { blocks: 0, bytes: 0, requested: 0 };

    pub(super) fn add(&mut self, span: &Span) {
        self.blocks += 1;
        self.bytes += span.units.get() as u64 * UNIT_BYTES as u64;
        self.requested += span.requested.get() as u64;
    }

    /// Undoes `add` of the same span, before it changes.
    pub(super) fn remove(&mut self, span: &Span) {
        self.blocks -= 1;
        self.bytes -= span.units.get() as u64 * UNIT_BYTES as u64;
        self.requested -= span.requested.get() as u64;
    }
}

/// Spans of small blocks that belong to tenants' heaps.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TenantSpans {
    pub spans: u64,
    pub bytes: u64,
}

impl TenantSpans {
    pub(super) const NONE: TenantSpans = TenantSpans { spans: 0, bytes: 0 };

    pub(super) fn add(&mut self, span: &Span) {
        self.spans += 1;
        self.bytes += span.units.get() as u64 * UNIT_BYTES as u64;
    }

    /// Undoes `add` of the same span, before it changes.
    pub(super) fn remove(&mut self, span: &Span) {
        self.spans -= 1;
        self.bytes -= span.units.get() as u64 * UNIT_BYTES as u64;
    }
}

/// Blocks in a row that are looked at while the lock is held.
const STRETCH_MOST: u32 = 1024;

/// The contents of a mapping of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    Blocks,
    Metadata,
}

impl<O: Os> Pages<O> {
    pub fn stats(&self) -> PageStats {
        let state = self.lock();
        let unit = UNIT_BYTES as u64;
        PageStats {
            mapped: state.runs.huge as u64 * HUGE_PAGE_BYTES as u64 - state.runs.lost * unit,
            used: state.runs.used * unit,
            dirty_free: state.runs.dirty_free * unit,
            spans_open: state.spans_open as u64,
            large: state.large,
            tenants: state.tenants,
            released: self.released.load(Ordering::Relaxed) as u64,
            huge: self.huge_backed.load(Ordering::Relaxed) as u64 * HUGE_PAGE_BYTES as u64,
        }
    }

    /// The blocks above the classes that live.
    pub fn large(&self) -> LargeStats {
        self.lock().large
    }

    /// Bytes of the range that were ever mapped.
    #[inline]
    pub fn mapped_bytes(&self) -> usize {
        self.grown.load(Ordering::Relaxed)
    }

    /// Bytes that the heap can have at most.
    pub fn range_bytes(&self) -> usize {
        self.most_huge_pages.load(Ordering::Relaxed) as usize * HUGE_PAGE_BYTES
    }

    /// An upper bound of the bytes that the heap's blocks hold in memory.
    pub fn footprint(&self) -> usize {
        self.footprint_of(&self.lock())
    }

    /// The footprint, where nobody holds the lock that it takes.
    pub fn footprint_now(&self) -> Option<usize> {
        self.state.try_lock().map(|state| self.footprint_of(&state))
    }

    pub(super) fn footprint_of(&self, state: &Guard<'_, State, O>) -> usize {
        let units = (state.runs.used + state.runs.dirty_free) as usize;
        (units * UNIT_BYTES).saturating_sub(self.released.load(Ordering::Relaxed))
    }

    /// Counts pages inside spans that were given back, or came into use again.
    pub fn count_released(&self, before: usize, after: usize) {
        self.released.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Notes that the pages of a live large block from `from` to `to`, in bytes from its start, hold no memory and nobody
    /// may touch them, or that they may be in use again. Only pages near its start are told apart.
    pub fn note_gone(&self, address: usize, from: usize, to: usize, gone: bool) {
        let state = self.lock();
        let Some(id) = self.span_of(address).filter(|id| self.is_large_at(&state, *id, address)) else {
            return;
        };
        let (span, [first, end]) = (self.span(id), [from, to].map(|place| place / PAGE_BYTES));
        let before = span.released_bytes();
        span.note_gone(first, end, gone);
        self.count_released(before, span.released_bytes());
    }

    /// Notes that pages came into use again that were given back at tick `at`.
    pub fn count_returned(&self, bytes: usize, at: Tick) {
        if at.is_since(self.too_soon_from.load()) {
            self.came_back.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes that the program ever needed again soon after they were given back. Bytes given back before
    /// tick `from` count no more from now on.
    pub fn came_back(&self, from: Tick) -> u64 {
        self.too_soon_from.store(from);
        let mut state = self.lock();
        state.runs.too_soon_from = from;
        state.runs.came_back * UNIT_BYTES as u64 + self.came_back.load(Ordering::Relaxed)
    }

    /// Memory that was given back before tick `from` counts no more as coming back. For a new process: a handler's child may have
    /// interrupted the holder of the lock, so this does not wait; units then count so from the next `came_back` on.
    pub fn forget_returned(&self, from: Tick) {
        self.too_soon_from.store(from);
        if let Some(mut state) = self.state.try_lock() {
            state.runs.too_soon_from = from;
        }
    }

    /// By how many bytes there were more large blocks at most, since this was asked last, than there are now.
    pub fn large_swing(&self) -> usize {
        let mut state = self.lock();
        let now = state.large.bytes;
        core::mem::replace(&mut state.large_most, now).saturating_sub(now) as usize
    }

    /// The answer of `large_swing`, but counting goes on.
    pub fn large_swing_now(&self) -> usize {
        let state = self.lock();
        state.large_most.saturating_sub(state.large.bytes) as usize
    }

    /// Bytes of free memory that nobody needed since this was asked last.
    pub fn low_water(&self) -> usize {
        self.lock().runs.low_water() as usize * UNIT_BYTES
    }

    /// Bytes of free memory.
    pub fn dirty_free_bytes(&self) -> usize {
        self.lock().runs.dirty_free as usize * UNIT_BYTES
    }

    /// Bytes of pages inside spans that were given back.
    pub fn released_bytes(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }

    /// Descriptors of spans that were ever in use.
    pub fn span_count(&self) -> u32 {
        self.lock().spans
    }

    /// The answer of `span_count`, for a thread that is the only one and may hold the lock: the number grows, and
    /// descriptors below it exist.
    pub fn span_count_unlocked(&self) -> u32 {
        // SAFETY: a number that is read whole; by the caller's situation nobody else writes it.
        unsafe { (&raw const (*self.state.as_ptr()).spans).read_volatile() }
    }

    /// Calls `take` for every open span.
    pub fn each_span(&self, mut take: impl FnMut(SpanId, &Span)) {
        let count = self.lock().spans;
        self.open_spans(count).for_each(|(id, span)| take(id, span));
    }

    /// The open spans among the first `count`, without a lock: they may change while we read; the caller wants a
    /// picture.
    pub fn open_spans(&self, count: u32) -> impl Iterator<Item = (SpanId, &Span)> {
        let spans = (0..count).map(SpanId).map(|id| (id, self.span(id)));
        spans.filter(|(_, span)| span.class() != SizeClass::NONE)
    }

    /// The free units of a 2 MiB block and those units of it that may hold memory; none past the last block.
    pub fn free_units_of(&self, number: u32) -> Option<(u128, u128)> {
        let state = self.lock();
        if number >= state.runs.huge {
            return None;
        }
        // SAFETY: blocks belong to the holder of the state.
        let block = unsafe { &*self.huge.at(number as usize) };
        Some((block.free, block.dirty))
    }

    /// The next blocks of ours in a row from `from` on: the first and the one behind the last.
    pub(super) fn next_stretch(&self, from: u32) -> Option<(u32, u32)> {
        let state = self.lock();
        let end = state.runs.huge;
        if state.runs.lost < u64::from(HUGE_PAGE_UNITS) {
            return (from < end).then_some((from, end));
        }
        let is_ours = |number: &u32| state.runs.is_ours(&self.huge, *number);
        let mut start = from;
        while start < end && !is_ours(&start) {
            start += state.runs.stride(&self.huge, start);
        }
        // The lock is not held for long.
        let most = end.min(start.saturating_add(STRETCH_MOST));
        (start < end).then(|| (start, (start..most).find(|number| !is_ours(number)).unwrap_or(most)))
    }

    /// Address and bytes of every part of the range and of the tables that can be in memory.
    pub fn each_mapping(&self, mut take: impl FnMut(Mapping, usize, usize)) {
        let mut from = 0;
        while let Some((start, end)) = self.next_stretch(from) {
            take(
                Mapping::Blocks,
                self.address_of(start * HUGE_PAGE_UNITS),
                (end - start) as usize * HUGE_PAGE_BYTES,
            );
            from = end;
        }
        for (start, bytes) in [
            self.classes.range(),
            self.owners.range(),
            self.allocated.range(),
            self.marks.range(),
            self.spans.range(),
            self.candidates.range(),
            self.huge.entries.range(),
            self.huge.groups.range(),
            self.left_out.range(),
        ] {
            if bytes > 0 {
                take(Mapping::Metadata, start, bytes);
            }
        }
    }
}
