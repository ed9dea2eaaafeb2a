//! The spans that were touched since their idle pages went: the janitor looks at these.
//!
//! A byte a span, beside the descriptors: a heap of 1 GiB has 16,000 spans, of which a tick has to do with
//! some hundred. To read a word of each took an OSD half a percent of its processor time, nearly all of it
//! waiting for memory.

use super::{Pages, SUBRELEASED, Span, SpanId};
use crate::base::ticks::Tick;
use crate::os::Os;

impl<O: Os> Pages<O> {
    /// Notes that blocks of a span came or went at tick `at`. The caller holds what the span belongs to.
    #[inline]
    pub fn touch(&self, id: SpanId, span: &Span, at: Tick) {
        if span.touched_at.get() == SUBRELEASED {
            self.set_candidate(id, true);
        }
        span.touched_at.set(at);
    }

    /// Notes that a span has no idle page that is still in memory. The caller holds what the span belongs to.
    pub fn note_subreleased(&self, id: SpanId, span: &Span) {
        span.touched_at.set(SUBRELEASED);
        self.set_candidate(id, false);
    }

    /// Notes of a span whether the janitor has to look at it. The caller holds what the span belongs to.
    pub(super) fn set_candidate(&self, id: SpanId, candidates: bool) {
        // SAFETY: the table is as long as that of the descriptors.
        unsafe { self.candidates.shared(id.0 as usize) }.set(u8::from(candidates));
    }

    fn looks_candidate(&self, id: u32) -> bool {
        // SAFETY: the table is as long as that of the descriptors.
        unsafe { self.candidates.shared(id as usize) }.get() != 0
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub(super) fn is_candidate(&self, id: SpanId) -> bool {
        self.looks_candidate(id.0)
    }

    /// The spans among these that were touched since their idle pages went. A span that another thread touches meanwhile
    /// may be left out: there will be another tick.
    pub fn candidates_in(&self, ids: core::ops::Range<u32>) -> impl Iterator<Item = SpanId> {
        ids.filter(|id| self.looks_candidate(*id)).map(SpanId)
    }
}
