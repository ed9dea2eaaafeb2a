//! When it begins and ends. While it lasts the fast paths are off: each call comes by, and is served from the cache of its
//! virtual CPU all the same (`pop_short`, `free_short`).

use crate::base::sync::Ordering;
use crate::heap::Heap;
use crate::os::Os;
use crate::watch::Wanted;

/// Why it does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotRecorded {
    /// Another tool is at it.
    Already,
    NoMemory,
    /// By a policy that does more than hand blocks out.
    Policy,
}

impl<O: Os> Heap<O> {
    /// One thread at a time comes here and to `end_recording`. Called inside. Its number.
    pub(crate) fn begin_recording(&self, wanted: &Wanted) -> Result<u32, NotRecorded> {
        if self.pages.keeps_marks() {
            return Err(NotRecorded::Policy);
        }
        if self.recording.is_on() {
            if !self.recording.is_over(&self.os) {
                return Err(NotRecorded::Already);
            }
            self.end_recording();
        }
        if !self.is_started() || !self.recording.prepare(&self.os, wanted) {
            return Err(NotRecorded::NoMemory);
        }
        self.recording.closed.store(self.cache.close_front(&self.os), Ordering::Relaxed);
        self.recording.open();
        Ok(self.recording.number())
    }

    pub(crate) fn end_recording(&self) {
        self.recording.close(&self.os);
        if self.recording.closed.swap(false, Ordering::Relaxed) && !self.is_aborting() {
            self.cache.open_front();
            self.settle_sampling();
        }
    }
}
