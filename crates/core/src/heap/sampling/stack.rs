//! The stack of the caller: for samples, and for reports about them.

use crate::heap::Heap;
use crate::os::Os;
use crate::watch::{Stack, Trace};

impl<O: Os> Heap<O> {
    /// The stack of this call, as far as it can be known.
    pub(crate) fn here(&self) -> Stack {
        let by_unwinding = |frames: &mut [usize]| self.hooks.map_or(0, |hooks| (hooks.unwind)(frames));
        Stack::taken_by(|frames| match by_unwinding(frames) {
            0 => self.os.stack(frames),
            depth => depth,
        })
    }

    /// The notes on this call.
    pub(crate) fn trace(&self, stack: Stack) -> Trace {
        Trace { thread: self.os.thread_number(), nanoseconds: self.os.now(), stack }
    }
}
