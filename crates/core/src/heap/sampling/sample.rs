//! Samples: allocations that are placed and written down one by one.

use crate::base::fault::{Access, Fault, Misuse};
use crate::base::text::Sink;
use crate::class::{MIN_ALIGN, SizeClass};
use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;
use crate::watch::{Guards, LiveSample, ProfileStats, Size, Stack, Trace};
use core::ffi::CStr;

/// No guarded samples where the hard limit leaves less than this.
const LIMIT_MARGIN: usize = 1 << 20;

/// What a heap that takes samples asks of whoever made it.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Called once, before the first guarded block is handed out.
    pub before_guards: fn(),
    /// Fills a buffer with the return addresses of this thread's calls and returns how many; 0 where it
    /// cannot.
    pub unwind: fn(&mut [usize]) -> usize,
}

/// What a request counts for where samples are drawn: its block, as in a refill, which knows no requests.
fn counted_bytes(bytes: usize, align: usize) -> usize {
    SizeClass::for_aligned(bytes, align).map_or(bytes, SizeClass::block_bytes)
}

impl<O: Os> Heap<O> {
    /// Asks what guarded samples will need to know, where there are any.
    pub(crate) fn learn_for_samples(&self) {
        if self.options.get(OptionId::guarded_rate) != 0 {
            self.guards.learn(&self.os);
        }
    }

    /// Starts the live profile anew: about one sample in `interval` bytes, 0 for the option's. False where
    /// there is no memory for its tables, in a heap without samples, and in a signal handler that interrupted
    /// the heap.
    pub fn start_profile(&self, interval: u64) -> bool {
        self.inside(|| self.start_profile_inside(interval)).unwrap_or(false)
    }

    fn start_profile_inside(&self, interval: u64) -> bool {
        let interval = match interval {
            0 => self.options.get(OptionId::sample_interval),
            given => given,
        };
        let started = self.hooks.is_some() && self.is_started() && self.profile.start(&self.os, interval);
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

    /// Says how often samples are wanted.
    pub(crate) fn settle_sampling(&self) {
        let mean = if self.hooks.is_none() {
            0
        } else if self.profile.is_on() {
            self.profile.interval()
        } else if self.options.get(OptionId::guarded_rate) != 0 {
            self.options.get(OptionId::sample_interval)
        } else {
            0
        };
        self.cache.sampling.set_mean(mean);
    }

    /// Starts what the options ask for, when the heap has started.
    pub(crate) fn start_sampling(&self) {
        if self.hooks.is_some() && self.options.is_on(OptionId::profile) {
            let _ = self.profile.start(&self.os, self.options.get(OptionId::sample_interval));
        }
        self.settle_sampling();
    }

    /// Does what follows from a new value of an option, if it is one of these. Called inside.
    pub(crate) fn apply_sampling_option(&self, id: OptionId) {
        match (id, self.options.is_on(OptionId::profile)) {
            (OptionId::profile, true) if !self.is_profiling() => _ = self.start_profile_inside(0),
            (OptionId::profile, false) => self.stop_profile(),
            (OptionId::sample_interval | OptionId::guarded_rate, _) => self.settle_sampling(),
            _ => {}
        }
    }

    /// Counts a request that came to the slow path; true where it is to be a sample.
    #[inline]
    pub(crate) fn sample_is_due(&self, bytes: usize, align: usize) -> bool {
        self.cache.sample_is_due(counted_bytes(bytes, align))
    }

    /// A sampled block; 0 where this is to be an ordinary one after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_sample(&self, bytes: usize, align: usize) -> usize {
        let most = Guards::most_bytes(&self.os);
        let rate = self.options.get(OptionId::guarded_rate);
        let guarded = bytes <= most && align <= most && rate != 0 && self.guards.is_due(&self.os, rate);
        if !guarded && !self.is_profiling() {
            return 0;
        }
        self.in_slow_path(|| {
            let stack = self.here();
            let block = if guarded { self.allocate_guarded(bytes, align, stack) } else { None };
            let own_run = || self.allocate_large(bytes, align).map(|fresh| fresh.address);
            let block = if self.is_profiling() { block.or_else(own_run) } else { block };
            if let Some(address) = block {
                self.profile.add(
                    &self.os,
                    address,
                    Size { bytes, counted: counted_bytes(bytes, align) },
                    &stack,
                );
            }
            block.unwrap_or(0)
        })
        .unwrap_or(0)
    }

    fn allocate_guarded(&self, bytes: usize, align: usize, stack: Stack) -> Option<usize> {
        let made = || {
            if let Some(hooks) = self.hooks {
                (hooks.before_guards)();
            }
        };
        // Guarded pages are not in the footprint that the limit is about: near it there are none.
        let room = |hard: usize| self.pages.footprint().saturating_add(LIMIT_MARGIN) <= hard;
        let fits = self.pages.limits.hard().is_none_or(room);
        if !fits || !self.guards.prepare(&self.os, made) {
            return None;
        }
        self.guards.allocate(&self.os, bytes, align, self.trace(stack))
    }

    fn trace(&self, stack: Stack) -> Trace {
        Trace { thread: self.os.thread_number(), nanoseconds: self.os.now(), stack }
    }

    /// Takes a guarded block back.
    pub(crate) fn free_guarded(&self, address: usize) -> Result<(), Misuse> {
        // Looked at first, so that the record of a block that stays live is not lost.
        self.guards.bytes_of(address)?;
        self.profile.remove(address);
        self.guards.free(&self.os, address, self.trace(self.here()))
    }

    /// Tells whether an address belongs to guarded samples. Async-signal-safe.
    pub fn is_guarded(&self, address: usize) -> bool {
        self.guards.owns(address)
    }

    /// Ends the process for an access to a guarded address that the machine refused, with the stack that
    /// `here` finds; returns where the address is not the reason. Async-signal-safe.
    pub fn stop_for_access(&self, address: usize, access: Access, here: impl FnOnce() -> Stack) {
        if !self.guards.owns(address) {
            return;
        }
        if let Some(mut misuse) = self.guards.misuse_of(address, access) {
            if access == Access::Execute {
                misuse.fault = Fault::Jump;
            }
            self.stop_with(misuse, here);
        }
    }

    /// The stack of this call, as far as it can be known.
    pub(crate) fn here(&self) -> Stack {
        let by_unwinding = |frames: &mut [usize]| self.hooks.map_or(0, |hooks| (hooks.unwind)(frames));
        Stack::taken_by(|frames| match by_unwinding(frames) {
            0 => self.os.stack(frames),
            depth => depth,
        })
    }

    /// A large block was allocated by a path that asks for samples afterwards.
    pub(crate) fn note_large(&self, address: usize, bytes: usize) {
        if self.sample_is_due(bytes, MIN_ALIGN) && self.is_profiling() {
            let size = Size { bytes, counted: counted_bytes(bytes, MIN_ALIGN) };
            self.profile.add(&self.os, address, size, &self.here());
        }
    }

    /// A large block was resized where it is: for the profile a free and an allocation.
    pub(crate) fn note_resized(&self, address: usize, bytes: usize) {
        if self.is_profiling() {
            self.profile.remove(address);
            self.note_large(address, bytes);
        }
    }
}
