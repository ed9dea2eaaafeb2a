//! The life of a span: opened for a class or a large block, extended, shrunk, closed.

use super::grow::Place;
use super::{Pages, SpanId, State};
use crate::base::sync::Ordering;
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::{Guard, Os};

impl<O: Os> Pages<O> {
    /// A new span for blocks of `class`, all of them free.
    pub fn open_span(&self, os: &O, class: SizeClass) -> Option<SpanId> {
        let units = class.shape().span_units;
        self.open(os, class, Place { units, align: 1, room: 0 }).map(|(id, _)| id)
    }

    /// A new large span of `units`, at a multiple of `align` units; and whether its memory reads as zeros.
    pub fn open_large(&self, os: &O, units: u32, align: u32) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, Place { units, align, room: 0 })
    }

    /// The same where the span can grow to `room` units in place, as long as nobody takes those behind it.
    /// Anywhere if there is no such place.
    pub fn open_large_with_room(&self, os: &O, units: u32, room: u32) -> Option<(SpanId, bool)> {
        self.open(os, SizeClass::LARGE, Place { units, align: 1, room })
    }

    fn open(&self, os: &O, class: SizeClass, place: Place) -> Option<(SpanId, bool)> {
        let units = place.units;
        if units as usize > self.classes.capacity() || !self.fits_limits(os, units as usize * UNIT_BYTES) {
            return None;
        }
        let mut state = self.state.lock();
        if !self.is_allowed(&state, units) {
            return None;
        }
        let id = self.unused_span(os, &mut state)?;
        let Some(run) = self.take_run(os, &mut state, place) else {
            self.recycle_span(&mut state, id);
            return None;
        };
        state.spans_open += 1;
        self.span(id).open(class, run.start, units, run.zeroed);
        self.span(id).touched_at.set(self.clock.load(Ordering::Relaxed));
        self.set_untidy(id, class.is_small());
        self.admit_to_dumps(os, &mut state, run.start, units);
        self.set_owner(run.start, units, class, id);
        Some((id, run.zeroed))
    }

    /// The look at the hard limit under the lock: several threads may have passed the one without it.
    fn is_allowed(&self, state: &Guard<'_, State, O>, units: u32) -> bool {
        self.footprint_of(state).saturating_add(units as usize * UNIT_BYTES)
            <= self.limits.hard().unwrap_or(usize::MAX)
    }

    fn unused_span(&self, os: &O, state: &mut Guard<'_, State, O>) -> Option<SpanId> {
        let id = state.unused_spans;
        if id != SpanId::NONE {
            state.unused_spans = self.span(id).next();
            return Some(id);
        }
        let fresh = state.spans;
        let count = fresh as usize + 1;
        if count > self.spans.capacity() || !self.spans.ensure(os, count) || !self.untidy.ensure(os, count) {
            return None;
        }
        state.spans += 1;
        Some(SpanId(fresh))
    }

    fn recycle_span(&self, state: &mut Guard<'_, State, O>, id: SpanId) {
        self.set_untidy(id, false);
        self.span(id).set_class(SizeClass::NONE);
        self.span(id).set_next(state.unused_spans);
        state.unused_spans = id;
    }

    /// Gives a span's units back to the free runs, as free since tick `at`. Nobody else may know the span any
    /// more.
    pub fn close_span(&self, id: SpanId, at: u32) {
        let mut state = self.state.lock();
        self.close_under_lock(&mut state, id, at);
    }

    /// Closes the span of the large block at an address; false where another thread has done so since the
    /// caller looked.
    pub fn close_large(&self, id: SpanId, address: usize, at: u32) -> bool {
        let mut state = self.state.lock();
        let is_open = self.class_of(address) == SizeClass::LARGE && self.span_of(address) == Some(id);
        if is_open {
            self.close_under_lock(&mut state, id, at);
        }
        is_open
    }

    fn close_under_lock(&self, state: &mut Guard<'_, State, O>, id: SpanId, at: u32) {
        let span = self.span(id);
        let (start, units) = (span.start.get(), span.units.get());
        self.count_released(span.released_bytes(), 0);
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
        if !self.is_allowed(&state, more) {
            return None;
        }
        let span = self.span(id);
        let (start, units) = (span.start.get(), span.units.get());
        let zeroed = state.runs.extend(&self.blocks, start, units, more)?;
        let first = start + units;
        span.units.set(units + more);
        self.admit_to_dumps(os, &mut state, first, more);
        self.write_classes(first, more, SizeClass::LARGE);
        Some(zeroed)
    }

    /// Gives the last units of a large span back to the free runs.
    pub fn shrink_large(&self, id: SpanId, units: u32) {
        let mut state = self.state.lock();
        let span = self.span(id);
        let (first, fewer) = (span.start.get() + units, span.units.get() - units);
        span.units.set(units);
        self.write_classes(first, fewer, SizeClass::NONE);
        state.runs.put(&self.blocks, first, fewer, self.clock.load(Ordering::Relaxed));
    }
}
