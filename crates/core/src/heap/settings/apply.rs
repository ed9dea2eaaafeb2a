//! The effects of a new value of an option.

use crate::heap::Heap;
use crate::options::OptionId;
use crate::os::Os;

impl<O: Os> Heap<O> {
    /// Lets the new value take effect in a heap that has started. Called inside.
    pub(crate) fn apply_option(&self, id: OptionId) {
        if !self.is_started() {
            return;
        }
        self.apply_sampling_option(id);
        match id {
            OptionId::memory_limit | OptionId::hard_limit => {
                self.obeyed(self.upkeep.read_limits(&self.below_upkeep()));
            }
            OptionId::cache_limit => self.obeyed(self.upkeep.change_bound(&self.below_upkeep())),
            OptionId::huge_pages => self.pages.allow_ahead(self.options.is_on(id)),
            OptionId::last_words => self.upkeep.renew_words(&self.below_upkeep()),
            OptionId::system_calls => self.apply_system_calls(),
            _ => {}
        }
    }

    /// Asks the system for what the heap may need to know later.
    pub(crate) fn learn_now(&self) {
        self.os.learn();
        self.upkeep.settle_bound(&self.below_upkeep());
        self.learn_for_samples();
        self.upkeep.learn_group_once(&self.below_upkeep());
    }

    /// Asks for what may be needed now, for the last time, if the option says so.
    pub(crate) fn apply_system_calls(&self) {
        if self.options.get(OptionId::system_calls) == 1 {
            self.learn_now();
            self.os.keep_to_list();
        }
    }
}
