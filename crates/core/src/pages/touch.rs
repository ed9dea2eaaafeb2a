//! Memory of the tables that is brought in before a lock is taken under which it is written to: a page fault is no
//! work for a holder that others wait for.

use super::bits::HUGE_PAGE_UNITS;
use super::{ALLOCATED_PER_UNIT, Pages, Span, SpanId};
use crate::base::PAGE_BYTES;
use crate::base::sync::{AtomicU32, Ordering};
use crate::os::Os;

impl<O: Os> Pages<O> {
    /// The map of new units, which are nobody's yet; the tables are long enough.
    pub(super) fn touch_map(&self, first: u32, units: u32) {
        let units_per_page = PAGE_BYTES as u32 / size_of::<AtomicU32>() as u32;
        let mut unit = first;
        while unit < first + units {
            // SAFETY: by the caller's promise.
            unsafe {
                self.classes.shared(unit as usize).fetch_or(0, Ordering::Relaxed);
                self.owners.shared(unit as usize).fetch_or(0, Ordering::Relaxed);
            }
            unit += units_per_page.min(HUGE_PAGE_UNITS * 8);
        }
    }

    /// The bits about the blocks of a span that its class does not know yet.
    pub(super) fn touch_bits(&self, first: u32, units: u32) {
        let bits_per_page = PAGE_BYTES / size_of::<AtomicU32>();
        let (start, end) =
            (first as usize * ALLOCATED_PER_UNIT, (first + units) as usize * ALLOCATED_PER_UNIT);
        for word in (start..end).step_by(bits_per_page) {
            // SAFETY: the table is as long as the grown part of the range. Nobody else has these words.
            unsafe { self.allocated.shared(word) }.fetch_or(0, Ordering::Relaxed);
        }
    }

    /// The descriptors behind one that nobody had before: the next new one may lie there.
    pub(super) fn touch_next_span(&self, id: SpanId) {
        let next = id.0 as usize + PAGE_BYTES / size_of::<Span>() + 1;
        if next < self.spans.usable() {
            // SAFETY: the table is so long. Another thread may write to the span, and this changes nothing in it.
            unsafe { self.spans.shared(next) }.touch_memory();
        }
    }
}
