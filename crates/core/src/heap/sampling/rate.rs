//! Whether samples are taken, and how often.

use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Asks what guarded samples will need to know, where there are any.
    pub(crate) fn learn_for_samples(&self) {
        if self.options.get(OptionId::guarded_rate) != 0 {
            self.guards.learn(&self.os);
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
    pub(super) fn has_guards(&self) -> bool {
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
