//! The map of addresses: the class of the blocks at one, its span, and whether a block that was given out
//! starts there.

use super::{
    ALLOCATED_BITS, ALLOCATED_PER_UNIT, BYTES_PER_MARK, GRANULE_SHIFT, Pages, Span, SpanId, State, Table,
};
use crate::base::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use crate::class::{SizeClass, UNIT_SHIFT};
use crate::os::{Guard, Os};
use core::mem::offset_of;

/// The offsets of the words that `class_of_allocated` reads, for `cache::fast_path`.
impl<O: Os> Pages<O> {
    pub const START: usize = offset_of!(Self, base);
    pub const GROWN_GRANULES: usize = offset_of!(Self, grown_granules);
    pub const CLASS_OF_UNIT: usize = offset_of!(Self, class_of_unit);
    pub const ALLOCATED: usize = offset_of!(Self, allocated) + Table::<AtomicU32>::BASE;
    pub const OWNERS: usize = offset_of!(Self, owners) + Table::<AtomicU32>::BASE;
    pub const SPANS: usize = offset_of!(Self, spans) + Table::<Span>::BASE;
}

impl<O: Os> Pages<O> {
    /// The class of the blocks at an address: NONE where there is no block of ours. Reads nothing at the
    /// address.
    #[inline(always)]
    pub fn class_of(&self, address: usize) -> SizeClass {
        self.class_in_range(address).unwrap_or(SizeClass::NONE)
    }

    /// The class of the blocks at an address; none where that lies outside the range.
    #[inline(always)]
    pub fn class_in_range(&self, address: usize) -> Option<SizeClass> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        if offset >= self.grown.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the table of classes is as long as the grown part of the range. The byte may change under
        // us only if the caller does not own the block it asks about; then any answer is as good.
        Some(SizeClass::from_byte(
            unsafe { self.classes.shared(offset >> UNIT_SHIFT) }.load(Ordering::Relaxed),
        ))
    }

    /// The class of the block that starts at an address and that its span gave out: `free` asks this. None
    /// for an address inside a block, for a block that nobody can have, for large blocks and outside the
    /// range.
    #[inline(always)]
    pub fn class_of_allocated(&self, address: usize) -> Option<SizeClass> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        // Turned, so that an address that is no multiple of 16 lies beyond every bound.
        let granule = offset.rotate_right(GRANULE_SHIFT);
        if granule >= self.grown_granules.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: both tables are as long as the grown part of the range. The entries change under us only
        // if the caller does not own the block it asks about.
        unsafe {
            let allocated = self.allocated.shared(granule / ALLOCATED_BITS).load(Ordering::Relaxed);
            if allocated & 1 << (granule % ALLOCATED_BITS) == 0 {
                return None;
            }
            // Not from the granule: the class is what the caller waits for, the bit is checked beside it.
            Some(SizeClass::from_byte(self.classes.shared(offset >> UNIT_SHIFT).load(Ordering::Relaxed)))
        }
    }

    /// Notes that the block at an address was given out by its span, or came back. The caller holds the lock
    /// of the class: no word has bits of two spans.
    #[inline]
    pub fn note_allocated(&self, address: usize, allocated: bool) {
        let granule = (address - self.base.load(Ordering::Relaxed)) >> GRANULE_SHIFT;
        let bit = 1 << (granule % ALLOCATED_BITS);
        // SAFETY: the table is as long as the grown part of the range.
        let word = unsafe { self.allocated.shared(granule / ALLOCATED_BITS) };
        // The word belongs to the class's lock: nobody else writes it meanwhile.
        let others = word.load(Ordering::Relaxed) & !bit;
        word.store(if allocated { others | bit } else { others }, Ordering::Relaxed);
    }

    /// From its start on the heap has a byte for every 32 of its own, for who wants to note more.
    pub const fn keep_marks(&mut self) {
        self.marked = true;
    }

    pub(crate) fn keeps_marks(&self) -> bool {
        self.marked
    }

    /// The mark of an address; none outside the range.
    pub fn mark_of(&self, address: usize) -> Option<&AtomicU8> {
        let place = address.wrapping_sub(self.base.load(Ordering::Relaxed)) / BYTES_PER_MARK;
        // SAFETY: below `usable`.
        (place < self.marks.usable()).then(|| unsafe { self.marks.shared(place) })
    }

    /// The span of an address in a part of the range that belongs to a span.
    pub fn span_of(&self, address: usize) -> Option<SpanId> {
        if self.class_of(address) == SizeClass::NONE {
            return None;
        }
        let unit = self.unit_of(address);
        // SAFETY: the table of owners is as long as the grown part of the range.
        let owner = unsafe { self.owners.shared(unit as usize) }.load(Ordering::Relaxed);
        ((owner as usize) < self.spans.usable()).then_some(SpanId(owner))
    }

    /// The span of a unit that belongs to a span of blocks of a class.
    #[inline]
    pub fn span_of_unit(&self, address: usize) -> Option<SpanId> {
        let unit = self.unit_of(address) as usize;
        // SAFETY: the table of owners is as long as the grown part of the range.
        let owner = (unit < self.owners.usable()).then(|| unsafe { self.owners.shared(unit) })?;
        let owner = owner.load(Ordering::Relaxed);
        ((owner as usize) < self.spans.usable()).then_some(SpanId(owner))
    }

    /// The span that an address lies in, and the tenant's heap that it belongs to; none in the process's own heap, whose class for
    /// the address `class_of` tells from then on, also where the span was handed over a moment ago.
    pub fn tenant_of(&self, address: usize) -> Option<(SpanId, u32)> {
        if self.class_of(address) != SizeClass::LARGE {
            return None;
        }
        let unit = self.unit_of(address);
        let covers = |id: &SpanId| {
            let span = self.span(*id);
            unit.wrapping_sub(span.start.get()) < span.units.get() && span.class() != SizeClass::NONE
        };
        let id = match self.span_of(address) {
            Some(id) if covers(&id) => id,
            // Behind the first unit of a large span the table has what was there before.
            _ => {
                let units = (0..unit).rev().map(|unit| self.address_of(unit));
                let mut ids =
                    units.map_while(|at| (self.class_of(at) == SizeClass::LARGE).then(|| self.span_of(at)));
                ids.find_map(|id| id.filter(covers))?
            }
        };
        let heap = self.span(id).heap.get();
        if heap == 0 {
            // Pairs with the one in `hand_over`.
            fence(Ordering::Acquire);
            return None;
        }
        Some((id, heap))
    }

    /// The class of the block at an address, as its span has it where that is a tenant's.
    pub fn class_of_block(&self, address: usize) -> SizeClass {
        match self.class_of(address) {
            SizeClass::LARGE => match self.tenant_of(address) {
                Some((id, _)) => self.span(id).class(),
                // It may have become the process's own since the first look.
                None => self.class_of(address),
            },
            class => class,
        }
    }

    /// Forgets which blocks of these units were given out. The caller holds what their span belongs to.
    pub fn forget_allocated(&self, start: u32, units: u32) {
        let words = start as usize * ALLOCATED_PER_UNIT..(start + units) as usize * ALLOCATED_PER_UNIT;
        for word in words {
            // SAFETY: the table is as long as the grown part of the range, in which the units lie.
            let word = unsafe { self.allocated.shared(word) };
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Makes a span of a tenant's heap one of another heap, or of the process's own (0). The caller holds what it belongs to
    /// now and will belong to.
    pub fn hand_over(&self, id: SpanId, heap: u32) {
        let (span, mut state) = (self.span(id), self.state.lock());
        if span.class().is_small() {
            state.tenants.remove(span);
        }
        // A thread that frees a block meanwhile finds it a block of the class, or of a tenant's heap: never a large one.
        if heap == 0 {
            self.write_classes(span.start.get(), span.units.get(), span.class());
            fence(Ordering::Release);
        }
        span.heap.set(heap);
        if span.class().is_small() && heap != 0 {
            state.tenants.add(span);
        }
    }

    #[inline(always)]
    pub fn unit_of(&self, address: usize) -> u32 {
        ((address - self.base.load(Ordering::Relaxed)) >> UNIT_SHIFT) as u32
    }

    #[inline(always)]
    pub fn address_of(&self, unit: u32) -> usize {
        self.base.load(Ordering::Relaxed) + ((unit as usize) << UNIT_SHIFT)
    }

    /// The descriptor of a span that was opened once. `Span` says who may change what there.
    #[inline(always)]
    pub fn span(&self, id: SpanId) -> &Span {
        // SAFETY: an id comes from `open` or was found below `spans.usable`; descriptors stay as long as the
        // heap.
        unsafe { self.spans.shared(id.0 as usize) }
    }

    /// Says of units what they hold. The caller holds the state.
    pub(super) fn write_classes(&self, start: u32, units: u32, class: SizeClass) {
        let byte = class.byte();
        each_store(start, units, |unit, is_eight| {
            // SAFETY: the units are in the grown part of the range, which the table is as long as, and the table begins at
            // a multiple of eight. Nobody rightly asks about a unit while its owner changes; a thread that wrongly does
            // reads a byte of before or after, as these machines have it.
            unsafe {
                let place = self.classes.at(unit as usize);
                if is_eight {
                    AtomicU64::from_ptr(place.cast()).store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
                } else {
                    (*place).store(byte, Ordering::Relaxed);
                }
            }
        });
    }

    /// Makes a span known: what an open span has is written before its place in the map, which says that it is open. A child that
    /// is made in between finds units that nobody owns, and its repair (`repair`) makes them free.
    pub(super) fn enter_in_map(&self, _: &mut Guard<'_, State, O>, id: SpanId) {
        let span = self.span(id);
        let is_large = span.class() == SizeClass::LARGE;
        self.set_owner(span.start.get(), span.units.get(), span.shown_class(), id, is_large);
    }

    /// Makes a span unknown, before anything else of it is given up: a child that is made in between never finds a span
    /// open whose units are free.
    pub(super) fn strike_from_map(&self, _: &mut Guard<'_, State, O>, id: SpanId) {
        let span = self.span(id);
        let is_large = span.class() == SizeClass::LARGE;
        self.set_owner(span.start.get(), span.units.get(), SizeClass::NONE, SpanId::NONE, is_large);
    }

    /// Says whose units these are; `is_large`: they are those of a large block, or were.
    pub(super) fn set_owner(&self, start: u32, units: u32, class: SizeClass, id: SpanId, is_large: bool) {
        self.write_classes(start, units, class);
        // A large span is known by its first unit; the others only say that they are no place to start.
        let owned = if is_large { 1 } else { units };
        for unit in start..start + owned {
            // SAFETY: the table reaches as far as the heap has grown, and the units are in it.
            unsafe { self.owners.shared(unit as usize) }.store(id.0, Ordering::Relaxed);
        }
    }
}

/// Calls `store` for each unit of a run, or once for eight that begin at a multiple of eight: a run of 4 GiB has 262,144.
#[inline(always)]
fn each_store(start: u32, units: u32, mut store: impl FnMut(u32, bool)) {
    let (end, mut unit) = (start + units, start);
    while unit < end {
        let is_eight = unit & 7 == 0 && end - unit >= 8;
        store(unit, is_eight);
        unit += if is_eight { 8 } else { 1 };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_a_long_run_is_written_by_eight_units_at_a_time() {
        for (start, units, most) in
            [(0, 1, 1), (3, 2, 2), (5, 3, 3), (7, 9, 2), (6, 17, 10), (1, 262_144, 32_768 + 7)]
        {
            let (mut next, mut stores) = (start, 0);
            each_store(start, units, |unit, is_eight| {
                assert_eq!((unit, is_eight && unit % 8 != 0), (next, false));
                (next, stores) = (unit + if is_eight { 8 } else { 1 }, stores + 1);
            });
            assert_eq!(next, start + units);
            assert!(stores <= most, "{stores} stores for {units} units from {start} on");
        }
    }
}
