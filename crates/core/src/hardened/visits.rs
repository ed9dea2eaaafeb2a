//! Threads that are in a block of a tenant's heap: a heap that becomes a zombie waits for them before its memory is closed.

use super::Hardened;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::heap::HeapId;
use crate::os::Os;
use crate::tenants::Zombie;

const COUNTS: usize = 64;
/// How long those who are there are waited for, in nanoseconds, and how often.
const WAIT: u64 = 20_000;
const WAITS: u32 = 5000;

/// Threads in blocks of heaps; a count is of many heaps.
pub struct Visits {
    counts: [AtomicUsize; COUNTS],
    /// The process that they are of.
    process: AtomicU64,
    /// The thread that closes a zombie's memory, the last that began.
    closer: AtomicUsize,
}

impl Visits {
    pub const fn new() -> Self {
        Visits {
            counts: [const { AtomicUsize::new(0) }; COUNTS],
            process: AtomicU64::new(0),
            closer: AtomicUsize::new(0),
        }
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
        loop {
            let Some(id) = self.heap.owner_heap(address) else { return Visit::Own };
            let count = self.visits.of(id);
            if let Some(count) = count {
                // SeqCst: a heap that becomes a zombie says so first, and looks at the count then.
                count.fetch_add(1, Ordering::SeqCst);
            }
            let visitor = Visitor(count);
            // It may have been handed over before it was counted.
            if self.heap.owner_heap(address) != Some(id) {
                continue;
            }
            match self.heap.tenants.zombie(id) {
                Zombie::No => return Visit::Tenant { _held: visitor },
                // A handler in the thread that closes it does not wait for itself.
                Zombie::Soon if self.visits.closer.load(Ordering::Relaxed) == O::thread_id() => {
                    return Visit::Zombie(id);
                }
                Zombie::Soon => {
                    drop(visitor);
                    self.heap.os.sleep(WAIT);
                }
                Zombie::Yes => return Visit::Zombie(id),
            }
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

    /// Waits until no thread is in a block of a heap that is to be a zombie; false where one does not leave.
    pub(super) fn wait_for_visits(&self, id: HeapId) -> bool {
        let process = self.heap.os.process_number();
        if self.visits.process.swap(process, Ordering::Relaxed) != process {
            // Threads that are in blocks stayed with the parent.
            self.visits.counts.iter().for_each(|count| count.store(0, Ordering::SeqCst));
        }
        let is_empty = || self.visits.of(id).is_some_and(|count| count.load(Ordering::SeqCst) == 0);
        (0..WAITS).any(|_| {
            let is_empty = is_empty();
            if !is_empty {
                self.heap.os.sleep(WAIT);
            }
            is_empty
        })
    }

    /// Notes that this thread closes a zombie's memory, or no longer.
    pub(super) fn note_closer(&self, closes: bool) {
        self.visits.closer.store(if closes { O::thread_id() } else { 0 }, Ordering::Relaxed);
    }
}
