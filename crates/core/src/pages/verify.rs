//! The invariants of the pages, true whenever nobody holds their lock. For tests.

use super::bits::HUGE_PAGE_UNITS;
use super::{LargeStats, Pages, SUBRELEASED, SpanId, TenantSpans};
use crate::class::{SizeClass, UNIT_BYTES};
use crate::os::Os;

impl<O: Os> Pages<O> {
    /// Panics where the structures contradict each other.
    pub fn verify(&self) {
        let state = self.lock();
        state.runs.verify(&self.huge);
        let (mut open, mut open_units, mut released, mut large) = (0, 0, 0, LargeStats::NONE);
        let mut tenants = TenantSpans::NONE;
        for id in (0..state.spans).map(SpanId) {
            let span = self.span(id);
            let (class, start, units) = (span.class(), span.start.get(), span.units.get());
            if class == SizeClass::NONE {
                continue;
            }
            open += 1;
            open_units += units as u64;
            released += span.released_bytes();
            if class == SizeClass::LARGE {
                large.add(span);
            } else if span.heap.get() != 0 {
                tenants.add(span);
            }
            let touched = class.is_small() && span.touched_at.get() != SUBRELEASED;
            assert!(!touched || self.is_candidate(id), "the janitor looks at what was touched");
            assert_eq!(self.span_of(self.address_of(start)), Some(id), "the map names the span");
            for unit in start..start + units {
                let out = self.left_out_of(&state, unit / HUGE_PAGE_UNITS) >> (unit % HUGE_PAGE_UNITS) & 1;
                assert!(out == 0 || self.is_left_out(span.heap.get()), "core files have unit {unit}");
                assert_eq!(self.class_of(self.address_of(unit)), span.shown_class(), "unit {unit}");
            }
        }
        assert_eq!((open, open_units), (state.spans_open, state.runs.used), "what is open is counted");
        assert_eq!(large, state.large, "what large blocks hold is counted");
        assert_eq!(tenants, state.tenants, "spans of tenants' heaps are counted");
        assert_eq!(released, self.released_bytes(), "what was given back inside spans is counted");
        let mut mapped = 0;
        for number in state.runs.numbers_of_ours(&self.huge) {
            // SAFETY: blocks belong to the holder of the state.
            let block = unsafe { &*self.huge.at(number as usize) };
            for inside in 0..HUGE_PAGE_UNITS {
                let class = self.class_of(self.address_of(number * HUGE_PAGE_UNITS + inside));
                let unused = block.free | state.runs.waiting_of(number);
                let used = unused >> inside & 1 == 0;
                assert_eq!(class != SizeClass::NONE, used, "unit {inside} of block {number}");
                mapped += u64::from(class != SizeClass::NONE);
            }
        }
        assert_eq!(mapped, open_units, "no unit belongs to a span that is not open");
        assert_eq!(self.count_edges_left_out(), state.edges_left_out, "ends of what is left out are counted");
        let (mut unused, mut id) = (0, state.unused_spans);
        while id != SpanId::NONE && unused <= state.spans {
            unused += 1;
            id = self.span(id).next();
        }
        assert_eq!(unused + open, state.spans, "each descriptor is open or in the list");
        assert_eq!(self.mapped_bytes(), state.runs.huge as usize * HUGE_PAGE_UNITS as usize * UNIT_BYTES);
    }

    /// Address and bytes of the range as far as it was grown, and of the tables with what they only reserved.
    pub fn each_reservation(&self, mut take: impl FnMut(usize, usize)) {
        let mut number = 0;
        while let Some((start, end)) = self.next_stretch(number) {
            take(
                self.address_of(start * HUGE_PAGE_UNITS),
                (end - start) as usize * UNIT_BYTES * HUGE_PAGE_UNITS as usize,
            );
            number = end;
        }
        let tables = [
            self.classes.reservation(),
            self.owners.reservation(),
            self.allocated.reservation(),
            self.marks.reservation(),
            self.spans.reservation(),
            self.candidates.reservation(),
            self.huge.entries.reservation(),
            self.huge.groups.reservation(),
            self.left_out.reservation(),
        ];
        tables.into_iter().for_each(|(start, bytes)| take(start, bytes));
    }
}
