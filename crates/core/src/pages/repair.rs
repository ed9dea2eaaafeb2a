//! Putting the pages right in a child process whose parent's other threads were changing them when it was
//! made.
//!
//! The page map tells the truth: a span is open where the map names it in all its units, because it is
//! written last when a span opens and first when one closes. Free runs, counters and the list of unused
//! descriptors follow from it. Memory that was on its way at that instant becomes free, or stays unused.

use super::bits::HUGE_PAGE_UNITS;
use super::{LargeStats, Pages, Span, SpanId, State, TenantSpans, Withheld};
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::Os;

impl<O: Os> Pages<O> {
    /// Takes over the locks of threads that are not in this process, and puts right what those were changing.
    /// `outermost`: this thread is not in work here that a signal handler interrupted.
    ///
    /// # Safety
    /// All threads that could hold the locks, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, outermost: bool) {
        if outermost {
            self.delayed.forget_threads();
            self.kept.forget_threads();
        }
        // SAFETY: by the caller's promise. It guards nothing: blocks count once they are mapped.
        unsafe { self.growing.take_over(outermost) };
        // SAFETY: by the caller's promise.
        let (withheld, mut broken) =
            unsafe { (self.releasing.seize(outermost), self.state.seize(outermost)) };
        // Units were withheld with the state unlocked. If this thread holds the state itself, they stay
        // withheld.
        if withheld
            && !broken
            && let Some(held) = self.state.try_lock()
        {
            core::mem::forget(held);
            broken = true;
        }
        // SAFETY: the locks are held by this thread since the lines above.
        unsafe {
            if withheld {
                *self.releasing.seized() = Withheld::NOTHING;
            }
            if broken {
                self.rebuild(self.state.seized());
                self.state.release();
            }
            if withheld {
                self.releasing.release();
            }
        }
        if outermost {
            // Delayed frees are closed before classes count their spans.
            drop(self.lock());
            self.kept.forget_bytes();
        }
    }

    /// Counts the pages anew that were given back inside open spans. For a repair.
    pub fn recount_released(&self) {
        let spans = self.open_spans(self.span_count_unlocked());
        let known = spans.filter(|(id, span)| self.span_of(self.address_of(span.start.get())) == Some(*id));
        self.released.store(known.map(|(_, span)| span.released_bytes()).sum(), Ordering::Relaxed);
    }

    pub(super) fn rebuild(&self, state: &mut State) {
        // Blocks count once they are there: the units in them are ours.
        self.note_grown(state);
        state.runs.unlist_all(&self.huge);
        self.keep_withheld(state);
        state.unused_spans = SpanId::NONE;
        state.spans_open = 0;
        (state.large, state.tenants) = (LargeStats::NONE, TenantSpans::NONE);
        let mut released = 0;
        for id in (0..state.spans).rev().map(SpanId) {
            // As far as they are read and written here, descriptors belong to the holder of the state: the
            // locks of classes guard other fields.
            let span = self.span(id);
            if self.is_open(state, id, span) {
                state.opened(span);
                released += span.released_bytes();
                state.runs.claim(&self.huge, span.start.get(), span.units.get());
                // It may have been growing or shrinking, or on its way from one heap to another.
                self.write_classes(span.start.get(), span.units.get(), span.shown_class());
            } else {
                span.set_class(SizeClass::NONE);
                span.heap.set(0);
                span.set_next(state.unused_spans);
                state.unused_spans = id;
            }
        }
        self.clear_map_of_free_units(state);
        state.edges_left_out = self.count_edges_left_out();
        self.released.store(released, Ordering::Relaxed);
        self.huge_backed.store(state.runs.relist(&self.huge), Ordering::Relaxed);
    }

    /// Units that this thread itself withholds, in work that a signal handler interrupted, are free when that ends.
    fn keep_withheld(&self, state: &mut State) {
        if self.releasing.is_own() {
            // SAFETY: this thread holds the mutex, and changes what it guards only with the state locked.
            let Withheld { block, units, more } = unsafe { *self.releasing.as_ptr() };
            state.runs.claim_in(&self.huge, block, units);
            (1..=more).for_each(|further| state.runs.claim_in(&self.huge, block + further, u128::MAX));
        }
    }

    fn is_open(&self, state: &State, id: SpanId, span: &Span) -> bool {
        let (class, start, units) = (span.class(), span.start.get(), span.units.get());
        let end = start as u64 + units as u64;
        if class == SizeClass::NONE || units == 0 || end > state.runs.huge as u64 * HUGE_PAGE_UNITS as u64 {
            return false;
        }
        // A large span is known by its first unit.
        let known = if class == SizeClass::LARGE { 1 } else { units };
        (start..start + known).all(|unit| {
            // SAFETY: the tables are as long as the grown part of the range, in which the units lie.
            let (found, owner) = unsafe {
                (
                    self.classes.shared(unit as usize).load(Ordering::Relaxed),
                    self.owners.shared(unit as usize).load(Ordering::Relaxed),
                )
            };
            [class, SizeClass::LARGE].contains(&SizeClass::from_byte(found)) && owner == id.0
        })
    }

    fn clear_map_of_free_units(&self, state: &State) {
        let mut number = 0;
        while number < state.runs.huge {
            // SAFETY: blocks belong to the holder of the state.
            let free = unsafe { (*self.huge.at(number as usize)).free };
            super::bits::each_run(free, |start, units| {
                self.write_classes(number * HUGE_PAGE_UNITS + start, units, SizeClass::NONE);
            });
            number += state.runs.stride(&self.huge, number);
        }
    }
}

#[cfg(test)]
mod tests;
