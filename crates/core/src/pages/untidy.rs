//! Which spans were touched since their idle pages went: what the janitor looks at.
//!
//! A byte a span, beside the descriptors: a heap of 1 GiB has 16,000 spans, of which a tick has to do with some hundred.
//! To read a word of each took an OSD half a percent of its processor time, nearly all of it waiting for memory.

use super::{Pages, Span, SpanId, TIDY, Table};
use crate::os::Os;

/// Bytes that are looked at together.
const STRIDE: u32 = size_of::<u64>() as u32;

impl<O: Os> Pages<O> {
    /// Notes that blocks of a span came or went at tick `at`. The caller holds what the span belongs to.
    #[inline]
    pub fn touch(&self, id: SpanId, span: &mut Span, at: u32) {
        if span.touched_at == TIDY {
            self.set_untidy(id, true);
        }
        span.touched_at = at;
    }

    /// Notes that a span has no idle page that is still in memory. As above.
    pub fn note_tidy(&self, id: SpanId, span: &mut Span) {
        span.touched_at = TIDY;
        self.set_untidy(id, false);
    }

    /// Of a span that is being opened or closed, or is touched. As above.
    pub(super) fn set_untidy(&self, id: SpanId, untidy: bool) {
        // SAFETY: the table is as long as that of the descriptors. The byte is the span's, which belongs to the caller.
        unsafe { self.untidy.at(id.0 as usize).write_volatile(u8::from(untidy)) };
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub(super) fn is_untidy(&self, id: SpanId) -> bool {
        // SAFETY: as above.
        unsafe { self.untidy.at(id.0 as usize).read_volatile() != 0 }
    }

    /// Calls `look` for every span that was touched since it was tidy. A span that another thread touches meanwhile may be
    /// left out: there will be another tick.
    pub fn each_untidy(&self, mut look: impl FnMut(SpanId)) {
        let count = self.span_count();
        for first in (0..count).step_by(STRIDE as usize) {
            if next_of(&self.untidy, first) == 0 {
                continue;
            }
            for id in first..count.min(first + STRIDE) {
                // SAFETY: a byte below the length of the table; any value is a good one.
                if unsafe { self.untidy.at(id as usize).read_volatile() } != 0 {
                    look(SpanId(id));
                }
            }
        }
    }
}

/// The bytes from `first` on, a multiple of their number. The table has memory in whole pages.
fn next_of(table: &Table<u8>, first: u32) -> u64 {
    // SAFETY: as above; a table begins at a page, so the address is a multiple of eight.
    unsafe { table.at(first as usize).cast::<u64>().read_volatile() }
}
