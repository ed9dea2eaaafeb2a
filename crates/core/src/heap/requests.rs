//! Requests of the program that are about no block: options, release, the live profile, the child after a fork.

use crate::base::sync::Ordering;
use crate::base::text::Sink;
use crate::heap::Heap;
use crate::observe::{LiveSample, ProfileStats};
use crate::options::{Origin, Refused};
use crate::os::Os;
use core::ffi::CStr;

impl<O: Os> Heap<O> {
    /// Sets an option of the running heap. Lowering `cache_limit` empties the caches before this returns.
    pub fn set_option(&self, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.set_option_by(Origin::Api, name, value)
    }

    /// The same for a setting of another origin: a stronger one that has spoken stays.
    pub fn set_option_by(&self, origin: Origin, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        let id = self.options.set(name, value, origin)?;
        if self.inside(|_| self.apply_option(id)).is_none() {
            // A signal handler that interrupted a slow path: it takes effect when that ends.
            // Release and Acquire: the thread that takes the bit sees the value.
            self.late_options.fetch_or(1 << id as u32, Ordering::Release);
        }
        Ok(())
    }

    /// Learns all that depends on asking the system, before a filter of system calls stands in the way.
    pub fn learn_all(&self) {
        if self.is_started() {
            self.inside(|_| self.learn_now());
        }
    }

    /// When the library is loaded: asks for what may be needed, for the last time, if the option says so.
    pub fn after_load(&self) {
        if self.is_started() {
            self.inside(|_| self.apply_system_calls());
        }
    }

    /// Sets the function that is called when the soft limit was passed, with the heap's bytes in memory and
    /// the limit; by the janitor or by the thread that allocates, with no lock held.
    pub fn on_pressure(&self, callback: Option<extern "C" fn(usize, usize)>) {
        self.upkeep.callback.set(callback);
    }

    /// For the handler of `fork` in the child. If a signal handler forked inside a slow path of its own
    /// thread, that goes on when the handler returns, and may wait for a lock of a thread that stayed behind
    /// before anybody looks: the heap is put right now. Else the child pays for that when it needs the heap.
    pub fn after_fork_in_child(&self) {
        self.engine.after_fork(self);
    }
}

/// The live profile, for those who ask for it.
impl<O: Os> Heap<O> {
    /// Starts the live profile anew: about one sample in `interval` bytes, 0 for the option's. False where
    /// there is no memory for its tables, in a heap without samples, and in a signal handler that interrupted
    /// the heap.
    pub fn start_profile(&self, interval: u64) -> bool {
        self.inside(|_| self.is_started() && self.begin_profile(interval)).unwrap_or(false)
    }

    /// All zeros in a signal handler that interrupted the heap.
    pub fn profile_stats(&self) -> ProfileStats {
        self.inside(|_| self.profile.stats()).unwrap_or_default()
    }

    /// Calls `take` for each sampled block in use. No lock is held in the call, so it may allocate and free.
    pub fn each_live_sample(&self, take: impl FnMut(&LiveSample)) {
        self.profile.each_live(|look| _ = self.inside(|_| look()), take);
    }

    /// Writes the profile as gperftools' heap profiler does.
    pub fn put_profile(&self, sink: &mut dyn Sink) {
        self.profile.put(&self.os, sink, |look| _ = self.inside(|_| look()));
    }

    /// Writes the profile to a new file; false where it cannot be made.
    pub fn write_profile(&self, path: &CStr) -> bool {
        self.os.write_file(path, &mut |sink| self.put_profile(sink))
    }
}

/// The whole heap at once: cached blocks go back to their spans, free memory to the system.
impl<O: Os> Heap<O> {
    /// Brings everything that is cached back to its spans. For threads in slow paths.
    pub fn drain_everything(&self) {
        self.obeyed(self.upkeep.drain_everything(&self.floors));
    }

    /// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes
    /// given.
    pub fn release(&self, keep: usize) -> usize {
        self.in_slow_path(|_| match self.is_started() {
            true => self.obeyed(self.upkeep.release(&self.floors, keep)),
            false => 0,
        })
        .unwrap_or(0)
    }

    /// Gives back up to `most` bytes of free memory outside spans, which nothing has to be stopped or
    /// searched for. Returns the bytes.
    pub fn release_free(&self, most: usize) -> usize {
        self.in_slow_path(|_| self.upkeep.release_free(&self.floors, most)).unwrap_or(0)
    }

    /// Brings every cached block back to its span, which finds blocks that were freed twice.
    pub fn audit(&self) {
        self.in_slow_path(|_| {
            if self.is_started() {
                self.drain_everything();
            }
        });
    }

    /// For the end of a process: caches nothing any more, and brings back what is cached. A block that destructors
    /// after ours free goes to its span at once, where a second free is seen at the call.
    pub fn audit_for_good(&self) {
        if self.is_started() {
            self.upkeep.close_bound(&self.floors);
        }
        self.audit();
    }
}
