//! The life of a span: opened for a class or a large block, and resized.

use super::dumps::LeftOut;
use super::grow::Place;
use super::{Pages, Span, SpanId, State};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};

/// A block that is taken as it is has at most this part more than was asked for.
const LONGER_PART: u32 = 4;

/// The heap that a span is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfHeap {
    /// Its number; 0: the process's own.
    pub number: u32,
    /// It is so small that a huge page would be much.
    pub is_lean: bool,
}

impl OfHeap {
    pub const OWN: OfHeap = OfHeap { number: 0, is_lean: false };
}

impl<O: Os> Pages<O> {
    /// A new span for blocks of `class`, all of them free.
    pub fn open_span(&self, os: &O, class: SizeClass) -> Option<SpanId> {
        let units = class.shape().span_units;
        self.open(os, class, Place::of(units), 0, OfHeap::OWN).map(|(id, _)| id)
    }

    /// The same for a tenant's heap.
    pub fn open_span_of(&self, os: &O, class: SizeClass, of: OfHeap) -> Option<SpanId> {
        self.open(os, class, Place::of(class.shape().span_units), 0, of).map(|(id, _)| id)
    }

    /// A new large span for `requested` bytes; and whether its memory reads as zeros.
    pub fn open_large(&self, os: &O, place: Place, requested: usize) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, place, requested, OfHeap::OWN)
    }

    /// The same for a tenant's heap.
    pub fn open_large_of(
        &self,
        os: &O,
        place: Place,
        requested: usize,
        of: OfHeap,
    ) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, place, requested, of)
    }

    fn open(
        &self,
        os: &O,
        class: SizeClass,
        place: Place,
        requested: usize,
        of: OfHeap,
    ) -> Option<(SpanId, bool)> {
        let units = place.units;
        let bytes = units as usize * UNIT_BYTES;
        if bytes > self.range_bytes() {
            return None;
        }
        if class == SizeClass::LARGE
            && of == OfHeap::OWN
            && place.align == 1
            && place.room == 0
            && let Some(id) = self.take_kept(units)
        {
            self.span(id).tell_whole_run();
            return Some((id, false));
        }
        let mut state = match self.state.lock_soon() {
            Some(state) => state,
            None if of != OfHeap::OWN => self.state.lock(),
            None => match self.take_delayed(class, place) {
                Some(id) => {
                    self.span(id).tell_whole_run();
                    return Some((id, false));
                }
                None => self.state.lock(),
            },
        };
        self.settle(&mut state);
        state = self.admit(os, state, units)?;
        let (mut state, run) = self.take_run(os, state, place)?;
        let Some((id, is_new)) = self.unused_span(&mut state) else {
            state.runs.put(&self.huge, run.start, units, self.clock.load());
            return None;
        };
        let span = self.span(id);
        span.open(class, run.start, units, run.zeroed);
        span.heap.set(of.number);
        span.requested.set(requested);
        span.touched_at.set(self.clock.load());
        state.opened(span);
        self.limits.footprint.note(self.footprint_of(&state));
        self.set_candidate(id, class.is_small());
        let stays_out = self.is_left_out(of.number);
        let left_out = self.admit_to_dumps(&mut state, (run.start, units), stays_out);
        self.enter_in_map(&mut state, id);
        if of.is_lean || stays_out {
            // The memory of a small heap comes page by page; across the end of what core files have there is no huge page.
            state.runs.take_fresh();
        } else {
            self.note_fresh(&mut state, run.start + units, class, place.room > units);
        }
        drop(state);
        self.tell_dumps(os, left_out);
        if stays_out {
            self.leave_out(os, id, run.start, units);
        }
        if is_new {
            self.touch_next_span(id);
        }
        if class.is_small() {
            self.touch_bits(run.start, units);
        }
        Some((id, run.zeroed))
    }

    /// A large block that another thread has freed while the lock was taken, as it is now, and is long enough: with it a
    /// thread need not wait for a holder without a CPU. It keeps its length, so it may be a quarter longer than it has to.
    #[cold]
    fn take_delayed(&self, class: SizeClass, place: Place) -> Option<SpanId> {
        let Place { units, align: 1, room: 0 } = place else { return None };
        if class != SizeClass::LARGE {
            return None;
        }
        let id_of = |delayed_free: u64| SpanId(delayed_free as u32);
        let fits = |delayed_free: u64| {
            let span = self.span(id_of(delayed_free));
            span.class() == SizeClass::LARGE
                && span.heap.get() == 0
                && (units..=units + units / LONGER_PART).contains(&span.units.get())
                && self.delayed_free(id_of(delayed_free), self.address_of(span.start.get())) == delayed_free
        };
        let block = self.delayed.take_one(fits)?;
        // It may have been had, resized and freed by others since the look.
        if !fits(block) {
            self.close_taken(block);
            return None;
        }
        Some(id_of(block))
    }

    #[cfg(test)]
    pub fn take_delayed_for_test(&self, place: Place) -> Option<SpanId> {
        self.take_delayed(SizeClass::LARGE, place)
    }

    /// A descriptor, and whether nobody ever had it. There are as many as units, unless the table is at its end.
    fn unused_span(&self, state: &mut Guard<'_, State, O>) -> Option<(SpanId, bool)> {
        let id = state.unused_spans;
        if id != SpanId::NONE {
            state.unused_spans = self.span(id).next();
            return Some((id, false));
        }
        let fresh = state.spans;
        if fresh as usize >= self.spans.usable() || fresh as usize >= self.candidates.usable() {
            return None;
        }
        state.spans += 1;
        Some((SpanId(fresh), true))
    }

    /// Makes the span of the large block at an address `units` long where it lies, for `requested` bytes:
    /// into the units behind it, or gives its last ones back. False where that cannot be, and where another
    /// thread has freed the block since the caller looked.
    pub fn resize_large(&self, os: &O, id: SpanId, address: usize, units: u32, requested: usize) -> bool {
        let span = self.span(id);
        let missing = || units.saturating_sub(span.units.get());
        if missing() > 0 && !self.fits_limits(os, missing() as usize * UNIT_BYTES) {
            return false;
        }
        let mut state = self.lock();
        if !self.is_large_at(&state, id, address) {
            return false;
        }
        if let Some(blocks) = self.missing_behind(&state, span.start.get(), span.units.get(), missing()) {
            let before = state.runs.huge;
            drop(state);
            self.grow(os, before, blocks);
            state = self.lock();
            if !self.is_large_at(&state, id, address) {
                return false;
            }
        }
        state.large.remove(span);
        // Of two threads that resize one block, the other may have been first.
        let more = missing();
        let (mut fits, mut left_out) = (true, None);
        let behind = span.start.get() + span.units.get();
        if more > 0 {
            (fits, left_out) = self.extend(&mut state, span, more);
        }
        if fits {
            self.shrink(&mut state, span, units);
            span.note_resized(requested);
        }
        state.large_grew_by(span);
        let stays_out = fits && more > 0 && self.is_left_out(span.heap.get());
        drop(state);
        self.tell_dumps(os, left_out);
        if stays_out {
            self.leave_out(os, id, behind, more);
        }
        fits
    }

    /// Whether it could be, and what of it is left out of core files.
    fn extend(&self, state: &mut Guard<'_, State, O>, span: &Span, more: u32) -> (bool, Option<LeftOut>) {
        let (start, units) = (span.start.get(), span.units.get());
        if !self.is_allowed(state, more) || state.runs.extend(&self.huge, start, units, more).is_none() {
            return (false, None);
        }
        span.units.set(units + more);
        self.limits.footprint.note(self.footprint_of(state));
        let stays_out = self.is_left_out(span.heap.get());
        let left_out = self.admit_to_dumps(state, (start + units, more), stays_out);
        self.write_classes(start + units, more, SizeClass::LARGE);
        self.note_fresh(state, start + units + more, SizeClass::LARGE, false);
        (true, left_out)
    }

    fn shrink(&self, state: &mut Guard<'_, State, O>, span: &Span, units: u32) {
        let (first, fewer) = (span.start.get() + units, span.units.get() - units);
        if fewer > 0 {
            span.units.set(units);
            self.write_classes(first, fewer, SizeClass::NONE);
            state.runs.put(&self.huge, first, fewer, self.clock.load());
        }
    }
}
