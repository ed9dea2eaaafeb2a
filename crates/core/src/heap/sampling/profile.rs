//! The live profile, for those who ask for it.

use crate::base::text::Sink;
use crate::heap::Heap;
use crate::os::Os;
use crate::watch::{LiveSample, ProfileStats};
use core::ffi::CStr;

impl<O: Os> Heap<O> {
    /// Starts the live profile anew: about one sample in `interval` bytes, 0 for the option's. False where
    /// there is no memory for its tables, in a heap without samples, and in a signal handler that interrupted
    /// the heap.
    pub fn start_profile(&self, interval: u64) -> bool {
        self.inside(|| self.is_started() && self.begin_profile(interval)).unwrap_or(false)
    }

    /// All zeros in a signal handler that interrupted the heap.
    pub fn profile_stats(&self) -> ProfileStats {
        self.inside(|| self.profile.stats()).unwrap_or_default()
    }

    /// Calls `take` for each sampled block in use. No lock is held in the call, so it may allocate and free.
    pub fn each_live_sample(&self, take: impl FnMut(&LiveSample)) {
        self.profile.each_live(|look| _ = self.inside(look), take);
    }

    /// Writes the profile as gperftools' heap profiler does.
    pub fn put_profile(&self, sink: &mut dyn Sink) {
        self.profile.put(&self.os, sink, |look| _ = self.inside(look));
    }

    /// Writes the profile to a new file; false where it cannot be made.
    pub fn write_profile(&self, path: &CStr) -> bool {
        self.os.write_file(path, &mut |sink| self.put_profile(sink))
    }
}
