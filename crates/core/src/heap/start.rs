//! Start of the heap: its settings, and one floor after the other; and the effects of options.

use crate::base::Fresh;
use crate::base::sync::Ordering;
use crate::cache::FrontKind;
use crate::class::SizeClass;
use crate::engine::{ABORTING, FAILED, Inside, NEW, READY};
use crate::heap::Heap;
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
        let started = self.engine.start_floors(|| self.start_keys());
        self.state.store(if started { READY } else { FAILED }, Ordering::Release);
        if started {
            let below = &self.floors;
            self.upkeep.start_bound(below);
            self.upkeep.start_limits(below);
            self.pages.allow_prefault(self.options.is_on(OptionId::huge_pages));
            self.start_sampling();
        }
        started
    }

    /// A block of a class for a request of `bytes`.
    pub(crate) fn allocate_class(&self, inside: Inside<'_>, class: SizeClass, bytes: usize) -> usize {
        if self.is_started() { self.keys.leave(class, self.engine.take(inside, class, bytes)) } else { 0 }
    }

    /// A run of its own for a request of `bytes`.
    pub(crate) fn allocate_large(&self, inside: Inside<'_>, bytes: usize, align: usize) -> Option<Fresh> {
        if self.is_started() { self.engine.take_large(inside, bytes, align) } else { None }
    }

    pub fn setup(&self) -> Setup {
        let usable_cpus = self.os.usable_cpus(self.cache.cpus_seen());
        self.upkeep.settle_bound(&self.floors);
        Setup { front: self.cache.kind(), cache_limit: self.central.budget.limit(), usable_cpus }
    }

    /// A policy that keeps marks of its own has no keys.
    fn start_keys(&self) {
        if !self.pages.keeps_marks() {
            self.keys.start(self.os.random());
        }
    }
}

/// The effects of a new value of an option.
impl<O: Os> Heap<O> {
    /// Lets the new value take effect in a heap that has started. Called inside.
    pub(crate) fn apply_option(&self, id: OptionId) {
        if !self.is_started() {
            return;
        }
        self.apply_sampling_option(id);
        match id {
            OptionId::memory_limit | OptionId::hard_limit => {
                self.obeyed(self.upkeep.read_limits(&self.floors));
            }
            OptionId::cache_limit => self.obeyed(self.upkeep.change_bound(&self.floors)),
            OptionId::huge_pages => self.pages.allow_prefault(self.options.is_on(id)),
            OptionId::last_words => self.upkeep.renew_words(&self.floors),
            OptionId::system_calls => self.apply_system_calls(),
            _ => {}
        }
    }

    /// Asks the system for what the heap may need to know later.
    pub(crate) fn learn_now(&self) {
        self.os.learn();
        self.upkeep.settle_bound(&self.floors);
        self.learn_for_samples();
        self.upkeep.learn_group_once(&self.floors);
    }

    /// Asks for what may be needed now, for the last time, if the option says so.
    pub(crate) fn apply_system_calls(&self) {
        if self.options.get(OptionId::system_calls) == 1 {
            self.learn_now();
            self.os.keep_to_list();
        }
    }
}
