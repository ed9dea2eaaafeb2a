//! Start of the heap: its settings, and one layer after the other.

use crate::base::sync::Ordering;
use crate::cache::FrontKind;
use crate::heap::{ABORTING, FAILED, Heap, NEW, READY};
use crate::options::OptionId;
use crate::os::Os;

/// How a heap came to be set up, for those who ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    pub front: FrontKind,
    pub cache_limit: usize,
    pub usable_cpus: usize,
}

impl<O: Os> Heap<O> {
    /// Starts the heap if that has not happened yet; false where the system gives no memory for its tables.
    #[inline]
    pub(crate) fn is_started(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            READY => true,
            ABORTING => false,
            _ => self.start(),
        }
    }

    #[cold]
    fn start(&self) -> bool {
        let _held = self.starting.lock();
        // First: a child that is made in the middle of this finds the lock held.
        self.process.start(&self.os);
        if self.state.load(Ordering::Relaxed) == READY {
            return true;
        }
        let first = self.state.load(Ordering::Relaxed) == NEW;
        if first {
            self.read_settings();
        }
        let started = self.start_layers();
        self.state.store(if started { READY } else { FAILED }, Ordering::Release);
        if started {
            let below = self.below_upkeep();
            self.upkeep.start_bound(&below);
            self.upkeep.start_limits(&below);
            self.pages.allow_ahead(self.options.is_on(OptionId::huge_pages));
            self.start_sampling();
        }
        started
    }

    fn start_layers(&self) -> bool {
        if !self.pages.start(&self.os) {
            return false;
        }
        self.start_keys();
        if !self.cache.start(&self.os, self.options.get(OptionId::front) == 1) {
            self.pages.stop(&self.os);
            return false;
        }
        self.central.start(&self.os);
        true
    }

    pub fn setup(&self) -> Setup {
        let usable_cpus = self.os.usable_cpus(self.cache.cpus_seen());
        self.upkeep.settle_bound(&self.below_upkeep());
        Setup { front: self.cache.kind(), cache_limit: self.central.budget.limit(), usable_cpus }
    }
}
