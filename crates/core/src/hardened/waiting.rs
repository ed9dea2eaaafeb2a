//! Freed blocks on their way into quarantine, and out of it.
//!
//! Near a limit blocks above 48 KiB do not wait. They would be some MiB for each virtual
//! CPU, of a heap that has to give back elsewhere for each of them, and takes a fault for each page of that.

use super::{Hardened, MOST_SMALL};
use crate::base::fault::Misuse;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::heap::HeapId;
use crate::os::Os;

/// Memory is short from this part of the soft limit on that is left, and no longer when so much of it is.
const BEGINS: usize = 16;
const ENDS: usize = 8;
/// How often another thread is waited for that empties the quarantine, and how long each time, in nanoseconds.
const TRIES: u32 = 500;
const WAIT: u64 = 20_000;

impl<O: Os> Hardened<O> {
    /// Whether the heap is near its soft limit, or was and has not moved far away since. Asked for large blocks only: it takes
    /// a lock.
    #[inline(never)]
    pub(super) fn is_short(&self) -> bool {
        let Some(soft) = self.heap.pages.limits.soft() else { return false };
        let was = self.was_short();
        // If somebody holds the lock it is as it was.
        let Some(Some(footprint)) = self.heap.inside(|_| self.heap.pages.footprint_now()) else { return was };
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

    /// Puts a block that was cleared into quarantine.
    #[inline(always)]
    pub(super) fn let_wait(&self, start: usize, class: SizeClass) -> Result<(), Misuse> {
        let (os, front) = (&self.heap.os, &self.heap.cache.front);
        let leaving = match class.block_bytes() > MOST_SMALL && self.is_short() {
            true => start,
            false => self.quarantine.exchange(os, front, class, start),
        };
        if leaving == 0 {
            self.heap.quarantined.count(class, true);
        }
        if leaving != 0 {
            // Every block is looked at again when it is handed out. A block that without a budget would have had
            // guards is looked at only then.
            if class.block_bytes() <= MOST_SMALL {
                self.is_untouched(leaving, class)?;
            }
            if !front.push(class, leaving) {
                os.unseen(|| self.heap.free_slow(leaving));
            }
        }
        Ok(())
    }

    pub(super) fn empty_quarantine(&self) {
        self.quarantine.empty(&self.heap.os, |start| self.leave_quarantine(start));
        self.empty_runs();
        self.empty_quarantine_of_tenants();
    }

    /// Gives a block that waited back to the heap. It counts as waiting until it is back: the end of a heap looks at that.
    pub(super) fn leave_quarantine(&self, start: usize) {
        self.heap.quarantined.count(self.heap.pages.class_of_block(start), false);
        self.leave_of_tenant(start);
    }

    /// Puts a small block of a tenant's heap, which was cleared, into quarantine.
    pub(super) fn let_wait_of_tenant(&self, start: usize, class: SizeClass) -> Result<(), Misuse> {
        if self.goes_at_once(start) {
            self.heap.os.unseen(|| self.heap.free(start));
            return Ok(());
        }
        self.heap.tenants.note_waiting(&self.heap.pages, start, true);
        let leaving = self.of_tenants.exchange(&self.heap.os, &self.heap.cache.front, class, start);
        if leaving == 0 {
            self.heap.quarantined.count(class, true);
        } else {
            self.is_untouched(leaving, class)?;
            self.leave_of_tenant(leaving);
        }
        // Its heap may have ended, and looked before it was there.
        if self.goes_at_once(start) {
            self.empty_quarantine_of_tenants();
        }
        Ok(())
    }

    /// Brings all blocks of a heap that takes no more into quarantine out of it. Another thread may be emptying that.
    pub(super) fn empty_quarantine_of(&self, id: HeapId) -> bool {
        (0..TRIES).any(|turn| {
            if turn != 0 {
                self.heap.os.sleep(WAIT);
            }
            if self.heap.tenants.has_waiting(id) {
                self.empty_quarantine_of_tenants();
            }
            !self.heap.tenants.has_waiting(id)
        })
    }

    fn leave_of_tenant(&self, start: usize) {
        let tenants = &self.heap.tenants;
        let waits = if tenants.has_any() { tenants.as_waiting(&self.heap.pages, start) } else { None };
        self.heap.os.unseen(|| self.heap.free(start));
        if let Some(waits) = waits {
            tenants.count_waiting(waits, false);
        }
    }

    pub(super) fn empty_quarantine_of_tenants(&self) {
        self.of_tenants.empty(&self.heap.os, |start| self.leave_quarantine(start));
        self.empty_runs_of_tenants();
    }
}
