//! Samples: allocations that are placed and written down one by one.

use super::Heap;
use crate::base::text::Sink;
use crate::options::OptionId;
use crate::os::Os;
use crate::watch::{LiveSample, ProfileStats, Stack};
use core::ffi::CStr;

impl<O: Os> Heap<O> {
    /// Starts the live profile anew: about one sample in `interval` bytes, 0 for the option's. False where there is no
    /// memory for its tables.
    pub fn start_profile(&self, interval: u64) -> bool {
        let interval = match interval {
            0 => self.options.get(OptionId::sample_interval),
            given => given,
        };
        let started = self.is_started() && self.profile.start(&self.os, interval);
        self.settle_sampling();
        started
    }

    /// Ends the profile. What it knows stays readable until the next start.
    pub fn stop_profile(&self) {
        self.profile.stop();
        self.settle_sampling();
    }

    pub fn is_profiling(&self) -> bool {
        self.profile.is_on()
    }

    pub fn profile_stats(&self) -> ProfileStats {
        self.profile.stats()
    }

    /// Calls `take` for each sampled block in use. No lock is held in the call, so it may allocate and free.
    pub fn each_live_sample(&self, take: impl FnMut(&LiveSample)) {
        self.profile.each_live(take);
    }

    /// Writes the profile as gperftools' heap profiler does.
    pub fn put_profile(&self, sink: &mut dyn Sink) {
        self.profile.put(&self.os, sink);
    }

    /// Writes the profile to a new file; false where it cannot be made.
    pub fn write_profile(&self, path: &CStr) -> bool {
        self.os.write_file(path, &mut |sink| self.put_profile(sink))
    }

    /// Says how often samples are wanted.
    pub(super) fn settle_sampling(&self) {
        let mean = if self.profile.is_on() { self.profile.stats().interval } else { 0 };
        self.cache.sampling.set_mean(mean);
    }

    /// Starts what the options ask for, when the heap has started.
    pub(super) fn start_sampling(&self) {
        if self.options.is_on(OptionId::profile) {
            let _ = self.profile.start(&self.os, self.options.get(OptionId::sample_interval));
        }
        self.settle_sampling();
    }

    /// Does what follows from a new value of an option, if it is one of these.
    pub(super) fn apply_sampling_option(&self, id: OptionId) {
        match (id, self.options.is_on(OptionId::profile)) {
            (OptionId::profile, true) if !self.is_profiling() => _ = self.start_profile(0),
            (OptionId::profile, false) => self.stop_profile(),
            (OptionId::sample_interval, _) => self.settle_sampling(),
            _ => {}
        }
    }

    /// A sampled block; 0 where this is to be an ordinary one after all.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_sample(&self, bytes: usize, align: usize) -> usize {
        if !self.is_profiling() {
            return 0;
        }
        self.in_slow_path(|| {
            let stack = self.here();
            let Some(fresh) = self.allocate_large(bytes, align) else { return 0 };
            self.profile.add(&self.os, fresh.address, bytes, &stack);
            fresh.address
        })
        .unwrap_or(0)
    }

    /// The stack of this call, as far as it can be known.
    fn here(&self) -> Stack {
        Stack::taken_by(|frames| self.os.stack(frames))
    }

    /// A large block was allocated by a path that asks for samples afterwards.
    pub(super) fn note_large(&self, address: usize, bytes: usize) {
        if self.cache.sample_is_due(bytes) && self.is_profiling() {
            self.profile.add(&self.os, address, bytes, &self.here());
        }
    }

    /// A large block was resized where it is: for the profile a free and an allocation.
    pub(super) fn note_resized(&self, address: usize, bytes: usize) {
        if self.is_profiling() {
            self.profile.remove(address);
            self.note_large(address, bytes);
        }
    }
}
