//! Threads that are in a block of a tenant's heap: a heap that becomes a zombie waits for them before its memory is closed.

use super::Hardened;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::heap::HeapId;
use crate::os::Os;

const COUNTS: usize = 64;
/// How long those who are there are waited for, in nanoseconds, and how often.
const WAIT: u64 = 20_000;
const WAITS: u32 = 5000;

/// Threads in blocks of heaps; a count is of many heaps.
pub struct Visits {
    counts: [AtomicUsize; COUNTS],
}

impl Visits {
    pub const fn new() -> Self {
        Visits { counts: [const { AtomicUsize::new(0) }; COUNTS] }
    }

    fn of(&self, id: HeapId) -> Option<&AtomicUsize> {
        self.counts.get(id.0 as usize % COUNTS)
    }
}

/// A thread that works on a block.
pub enum Visit<'a> {
    Own,
    /// Until this is dropped the block's memory is not closed.
    Tenant {
        _held: Visitor<'a>,
    },
    /// Its memory may be closed.
    Zombie(HeapId),
}

pub struct Visitor<'a>(Option<&'a AtomicUsize>);

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::Release);
        }
    }
}

impl<O: Os> Hardened<O> {
    #[inline]
    pub(super) fn visit(&self, address: usize) -> Visit<'_> {
        if self.heap.tenants.has_any() { self.visit_tenant(address) } else { Visit::Own }
    }

    #[inline(never)]
    fn visit_tenant(&self, address: usize) -> Visit<'_> {
        self.heap.owner_heap(address).map_or(Visit::Own, |id| self.visit_heap(id))
    }

    /// For a thread that makes a block of a heap.
    pub(super) fn visit_heap(&self, id: HeapId) -> Visit<'_> {
        let count = self.visits.of(id);
        if let Some(count) = count {
            // SeqCst: a heap that becomes a zombie says so first, and looks at the count then.
            count.fetch_add(1, Ordering::SeqCst);
        }
        let visitor = Visitor(count);
        match self.heap.tenants.is_zombie(id) {
            true => Visit::Zombie(id),
            false => Visit::Tenant { _held: visitor },
        }
    }

    /// For a call that uses a block: in a zombie that is an access to it, and the process ends here.
    pub(super) fn visit_to_use(&self, address: usize) -> Visit<'_> {
        let visit = self.visit(address);
        if let Visit::Zombie(_) = visit {
            self.stop_at_zombie(address);
        }
        visit
    }

    /// Waits until no thread is in a block of a heap that is a zombie; false where one does not leave.
    pub(super) fn wait_for_visits(&self, id: HeapId) -> bool {
        let is_empty = || self.visits.of(id).is_some_and(|count| count.load(Ordering::SeqCst) == 0);
        (0..WAITS).any(|_| {
            let is_empty = is_empty();
            if !is_empty {
                self.heap.os.sleep(WAIT);
            }
            is_empty
        })
    }
}
