//! Whether samples are taken and how often, for the live profile, for tracers and for guards.

use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;

/// In an address that was left for later by `note_taken_back`: it is to be forgotten by the profile, and nothing else.
pub(crate) const FORGOTTEN: usize = 1;

impl<O: Os> Heap<O> {
    /// Asks what guarded samples will need to know, where there are any.
    pub(crate) fn learn_for_samples(&self) {
        if self.options.get(OptionId::guarded_rate) != 0 {
            self.sources.guards.learn(&self.os);
        }
    }

    /// Starts the live profile anew, in a heap that has started. Called inside.
    pub(crate) fn begin_profile(&self, interval: u64) -> bool {
        let interval = match interval {
            0 => self.options.get(OptionId::sample_interval),
            given => given,
        };
        let started = self.hooks.is_some() && self.profile.start(&self.os, interval);
        self.settle_sampling();
        started
    }

    /// Ends the profile. Its figures stay readable until the next start.
    pub fn stop_profile(&self) {
        self.profile.stop();
        self.settle_sampling();
    }

    pub fn is_profiling(&self) -> bool {
        self.profile.is_on()
    }

    /// Whether samples may be guarded.
    pub(crate) fn has_guards(&self) -> bool {
        self.hooks.is_some_and(|hooks| hooks.before_guards.is_some())
    }

    /// Says how often samples are wanted, and whether each request is to be looked at.
    fn wanted_samples(&self) -> (u64, bool) {
        let interval = || self.options.get(OptionId::sample_interval);
        if self.profile.is_on() {
            (self.profile.interval(), true)
        } else if self.probing.is_attached() {
            (interval(), true)
        } else if self.has_guards() && self.options.get(OptionId::guarded_rate) != 0 {
            (interval(), false)
        } else {
            (0, false)
        }
    }

    pub(crate) fn settle_sampling(&self) {
        // Two threads may be at this, for a profile and for a tracer: the last one that set something saw all.
        loop {
            let wanted = self.wanted_samples();
            self.cache.watch(wanted.0, wanted.1);
            if wanted == self.wanted_samples() {
                return;
            }
        }
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
            (OptionId::profile, true) if !self.is_profiling() => _ = self.begin_profile(0),
            (OptionId::profile, false) => self.stop_profile(),
            (OptionId::sample_interval | OptionId::guarded_rate, _) => self.settle_sampling(),
            _ => {}
        }
    }
}

/// A tracer that attaches to the probes, and what it is told.
impl<O: Os> Heap<O> {
    /// Whether each request is looked at: by a profile, or for a tracer.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_profiling() || self.probing.is_attached()
    }

    /// Switches samples on or off where a tracer has come or gone. The system tells nobody: passing threads look.
    #[inline]
    pub(crate) fn look_at_probes(&self) {
        if self.probing.has_changed() {
            self.obey_probes();
        }
    }

    #[cold]
    #[inline(never)]
    fn obey_probes(&self) {
        if self.is_ready() {
            self.probing.look();
            self.settle_sampling();
        }
    }

    /// Tells of a sample.
    pub(crate) fn announce(&self, address: usize, bytes: usize) {
        self.probing.allocated(&self.os, address, bytes, self.cache.sampling.mean());
    }

    /// A block that may be a sample is about to be freed by its owner.
    #[inline]
    pub(crate) fn note_freed(&self, address: usize) {
        self.profile.remove(address);
        self.probing.freed(address);
    }
}
