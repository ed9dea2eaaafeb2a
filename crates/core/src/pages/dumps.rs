//! The content of core files: free huge pages that were released are left out, and on demand all spans of tenants' heaps.
//!
//! A huge page that is left out as a whole is let in again by the first run that is taken there. Spans of heaps are left out one by
//! one: a bit for each unit says so, also when it is free again, until another's run lies there. Calls of the system are made
//! without the lock of the pages, with `releasing` held as soon as single units are left out, so that none undoes a later one.

use super::runs::Huge;
use super::{HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, Pages, SpanId, State, bits};
use crate::base::sync::Ordering;
use crate::class::UNIT_BYTES;
use crate::os::{Guard, Os};

/// Huge pages that may be left out of core files as a whole: each can cost two mappings of the process.
const MOST_UNDUMPED: u32 = 1024;
/// Places where units that are left out lie beside others: each costs a mapping. A process has 65,530 by default.
const MOST_EDGES: u32 = 16_384;

/// Units of which some are left out of core files.
pub(super) struct LeftOut {
    first: u32,
    end: u32,
}

impl LeftOut {
    fn with(other: Option<LeftOut>, first: u32, end: u32) -> Option<LeftOut> {
        let (before, after) = other.map_or((first, end), |other| (other.first, other.end));
        Some(LeftOut { first: first.min(before), end: end.max(after) })
    }
}

/// Free huge pages, and whoever takes a run.
impl<O: Os> Pages<O> {
    /// Leaves huge pages out whose units are withheld.
    pub(super) fn leave_out_of_dumps(&self, os: &O, number: u32, count: u32) -> bool {
        let bytes = count as usize * HUGE_PAGE_BYTES;
        number + count <= MOST_UNDUMPED
            && os.set_dumped(self.address_of(number * HUGE_PAGE_UNITS), bytes, false)
    }

    /// Notes that a huge page is left out as a whole.
    pub(super) fn note_undumped(&self, held: &mut Guard<'_, State, O>, number: u32) {
        self.leave_out_units(held, number, |_| 0);
        // SAFETY: huge pages belong to the holder of the state.
        unsafe { (*self.huge.at(number as usize)).undumped = true };
    }

    /// Notes that the huge pages of a run change, and what of them `tell_dumps` is to let into core files again. A run that
    /// `stays_out` is left as it is where all of it is left out.
    pub(super) fn admit_to_dumps(
        &self,
        held: &mut Guard<'_, State, O>,
        (start, units): (u32, u32),
        stays_out: bool,
    ) -> Option<LeftOut> {
        let stays_out = stays_out && self.are_left_out(held, start, units);
        let mut left_out: Option<LeftOut> = None;
        for number in start / HUGE_PAGE_UNITS..=(start + units - 1) / HUGE_PAGE_UNITS {
            // SAFETY: huge pages belong to the holder of the state.
            let block = unsafe { &mut *self.huge.at(number as usize) };
            block.changed_at = self.clock.load();
            let (first, end) = (number * HUGE_PAGE_UNITS, (number + 1) * HUGE_PAGE_UNITS);
            if core::mem::take(&mut block.undumped) {
                left_out = LeftOut::with(left_out, first, end);
            }
            let (from, to) = (first.max(start), end.min(start + units));
            let of_run = bits::mask(from - first, to - from);
            if !stays_out && self.left_out_of(held, number) & of_run != 0 {
                self.leave_out_units(held, number, |units| units & !of_run);
                left_out = LeftOut::with(left_out, from, to);
            }
        }
        left_out
    }

    /// Lets what lies around a run of the caller into core files. The system is asked once, whatever lies between, and
    /// without the lock.
    #[inline]
    pub(super) fn tell_dumps(&self, os: &O, left_out: Option<LeftOut>) {
        if let Some(left_out) = left_out {
            self.ask_for_dumps(os, left_out);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_for_dumps(&self, os: &O, LeftOut { first, end }: LeftOut) {
        let numbers = first / HUGE_PAGE_UNITS..=(end - 1) / HUGE_PAGE_UNITS;
        let let_in =
            |start: u32, units: u32| os.set_dumped(self.address_of(start), units as usize * UNIT_BYTES, true);
        if !self.has_left_out() {
            if !let_in(first, end - first) {
                // To be tried again with the next run there.
                let _held = self.lock();
                // SAFETY: huge pages belong to the holder of the state.
                numbers.for_each(|number| unsafe { (*self.huge.at(number as usize)).undumped = true });
            }
            return;
        }
        let _in_turn = self.releasing.lock();
        for number in numbers {
            let from = number * HUGE_PAGE_UNITS;
            let (start, stop) = (first.max(from), end.min(from + HUGE_PAGE_UNITS));
            let left_out = self.left_out_of(&self.lock(), number);
            let mut are_in = true;
            bits::each_run(bits::mask(start - from, stop - start) & !left_out, |start, units| {
                are_in &= let_in(from + start, units);
            });
            if !are_in {
                let _held = self.lock();
                // SAFETY: huge pages belong to the holder of the state.
                unsafe { (*self.huge.at(number as usize)).undumped = true };
            }
        }
    }
}

/// Spans of tenants' heaps.
impl<O: Os> Pages<O> {
    /// Has them left out. Called before there is one.
    pub fn leave_out_heaps(&self) {
        self.leaves_out_heaps.store(true, Ordering::Relaxed);
    }

    /// Whether a span of this heap is to be left out.
    pub(super) fn is_left_out(&self, heap: u32) -> bool {
        heap != 0 && self.leaves_out_heaps.load(Ordering::Relaxed)
    }

    /// Leaves units out that the caller's span of a heap just got. Where the system refuses, or the process would get too many
    /// mappings by it, they stay in.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_out(&self, os: &O, id: SpanId, start: u32, units: u32) {
        let last = (start + units - 1) / HUGE_PAGE_UNITS;
        if self.left_out.usable() <= last as usize && !self.has_bits_for(os, last as usize + 1) {
            return;
        }
        let _in_turn = self.releasing.lock();
        let mut state = self.lock();
        let span = self.span(id);
        let end_of_span = span.start.get() + span.units.get();
        // A program that frees the block while another thread resizes it may have taken the units away.
        let is_its_own = span.heap.get() != 0 && span.start.get() <= start && start + units <= end_of_span;
        if !is_its_own || self.are_left_out(&state, start, units) {
            return;
        }
        self.mark_left_out(&mut state, start, units, true);
        if state.edges_left_out > MOST_EDGES {
            self.mark_left_out(&mut state, start, units, false);
            return;
        }
        drop(state);
        let (address, bytes) = (self.address_of(start), units as usize * UNIT_BYTES);
        if !os.set_dumped(address, bytes, false) {
            self.mark_left_out(&mut self.lock(), start, units, false);
            os.set_dumped(address, bytes, true);
        }
    }

    /// Whether a span was ever left out.
    pub fn has_left_out(&self) -> bool {
        self.left_out.usable() != 0
    }

    /// Lets a span into core files that a heap hands to the process's own. The caller alone knows the span.
    pub fn let_into_dumps(&self, os: &O, id: SpanId) {
        let mut state = self.lock();
        let (start, units) = (self.span(id).start.get(), self.span(id).units.get());
        let left_out = self.admit_to_dumps(&mut state, (start, units), false);
        drop(state);
        self.tell_dumps(os, left_out);
    }

    fn has_bits_for(&self, os: &O, count: usize) -> bool {
        let _growing = self.growing.lock();
        (self.left_out.range().0 != 0 || self.left_out.start(os, self.huge.capacity()))
            && self.left_out.ensure(os, count)
    }

    fn mark_left_out(&self, held: &mut Guard<'_, State, O>, start: u32, units: u32, out: bool) {
        for number in start / HUGE_PAGE_UNITS..=(start + units - 1) / HUGE_PAGE_UNITS {
            let from = number * HUGE_PAGE_UNITS;
            let (first, end) = (start.max(from), (start + units).min(from + HUGE_PAGE_UNITS));
            let mask = bits::mask(first - from, end - first);
            self.leave_out_units(held, number, |units| if out { units | mask } else { units & !mask });
            // SAFETY: huge pages belong to the holder of the state.
            let block = unsafe { &mut *self.huge.at(number as usize) };
            // The kernel has no huge page across the end of a mapping.
            if out && mask != u128::MAX && block.huge == Huge::Yes {
                block.huge = Huge::Broken;
                self.huge_backed.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether all of them are left out already.
    fn are_left_out(&self, held: &Guard<'_, State, O>, start: u32, units: u32) -> bool {
        let is_out =
            |unit: u32| self.left_out_of(held, unit / HUGE_PAGE_UNITS) >> (unit % HUGE_PAGE_UNITS) & 1 == 1;
        self.has_left_out() && (start..start + units).all(is_out)
    }

    /// The units of a huge page that are left out one by one.
    pub(super) fn left_out_of(&self, _held: &Guard<'_, State, O>, number: u32) -> u128 {
        self.left_out_unlocked(number)
    }

    fn left_out_unlocked(&self, number: u32) -> u128 {
        if (number as usize) < self.left_out.usable() {
            // SAFETY: the entry is there, and belongs to the holder of the state.
            unsafe { *self.left_out.at(number as usize) }
        } else {
            0
        }
    }

    fn leave_out_units(
        &self,
        held: &mut Guard<'_, State, O>,
        number: u32,
        change: impl FnOnce(u128) -> u128,
    ) {
        let before = self.left_out_of(held, number);
        let after = change(before);
        if before == after {
            return;
        }
        let edges = held.edges_left_out + self.edges_of(number, after);
        held.edges_left_out = edges.saturating_sub(self.edges_of(number, before));
        // SAFETY: an entry that is not there has no bit and gets none: `has_bits_for` comes first.
        unsafe { *self.left_out.at(number as usize) = after };
    }

    /// The edges inside a huge page with these units left out, and at both its ends.
    fn edges_of(&self, number: u32, units: u128) -> u32 {
        let inside = ((units ^ units >> 1) << 1).count_ones();
        let below = number.checked_sub(1).map_or(0, |number| self.left_out_unlocked(number));
        let above = self.left_out_unlocked(number + 1);
        inside
            + u32::from(units & 1 != below >> (HUGE_PAGE_UNITS - 1))
            + u32::from(units >> (HUGE_PAGE_UNITS - 1) != above & 1)
    }

    /// Counts all edges. The caller holds the state, or is alone.
    pub(super) fn count_edges_left_out(&self) -> u32 {
        let entries = 0..self.left_out.usable() as u32;
        let inside = |number: u32| {
            let units = self.left_out_unlocked(number);
            let above = self.left_out_unlocked(number + 1);
            ((units ^ units >> 1) << 1).count_ones() + u32::from(units >> (HUGE_PAGE_UNITS - 1) != above & 1)
        };
        let first = u32::from(self.left_out_unlocked(0) & 1 == 1);
        first + entries.map(inside).sum::<u32>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
