//! The policy near a limit: blocks above 48 KiB do not wait when they are freed. They would be some MiB for each virtual
//! CPU, of a heap that has to give back elsewhere for each of them, and takes a fault for each page of that.

use super::Hardened;
use crate::base::sync::Ordering;
use crate::os::Os;

/// Memory is short from this part of the soft limit on that is left, and no longer when so much of it is.
const BEGINS: usize = 16;
const ENDS: usize = 8;

impl<O: Os> Hardened<O> {
    /// The last answer of `is_short`.
    pub(super) fn was_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Whether the heap is near its soft limit, or was and has not moved far away since. Asked for large blocks only: it takes
    /// a lock.
    #[inline(never)]
    pub(super) fn is_short(&self) -> bool {
        let Some(soft) = self.heap.pages.limits.soft() else { return false };
        let was = self.was_short();
        // If somebody holds the lock it is as it was.
        let Some(Some(footprint)) = self.heap.inside(|| self.heap.pages.footprint_now()) else { return was };
        let left = soft / if was { ENDS } else { BEGINS };
        let is = footprint + left > soft;
        if is != was {
            self.short.store(is, Ordering::Relaxed);
            if is {
                self.empty_quarantine();
            }
        }
        is
    }
}
