//! The lock of guarded samples in a child process.

use super::{Guards, NOBODY, WIDE_SLOTS};
use crate::base::sync::Ordering;
#[cfg(any(test, feature = "fake-os"))]
use crate::os::AnyLock;
use crate::os::Os;
use crate::sources::slot::LIVE;

impl<O: Os> Guards<O> {
    /// Takes the lock over from a thread that is not in this process. The data that it was changing is not
    /// trusted: blocks that are live can be freed, and their slots used again, all others are left alone.
    ///
    /// # Safety
    /// All threads that could hold the lock, but this one, stayed in the parent process.
    pub unsafe fn repair(&self, outermost: bool) {
        // SAFETY: by the caller's promise; released by the thread that seized it.
        unsafe {
            if self.state.seize(outermost) {
                let state = self.state.seized();
                (state.first, state.last) = (NOBODY, NOBODY);
                state.used = self.slot_count.load(Ordering::Relaxed);
                self.wide.store(WIDE_SLOTS, Ordering::Relaxed);
                let live = (0..(state.used + WIDE_SLOTS) as usize).filter_map(|number| self.slot(number));
                let live = live.filter(|slot| slot.state() == LIVE);
                self.live.store(live.count() as u32, Ordering::Relaxed);
                self.state.release();
            }
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_lock(&self, take: &mut dyn FnMut(&dyn AnyLock)) {
        take(&self.state);
    }
}
