//! Hands a block out: the work inside a slow path of malloc.

use super::{Engine, Inside};
use crate::base::Fresh;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::Os;
use crate::policy::Leaving;
use crate::tenants::{HeapId, Refusal};

/// No object is larger: differences of pointers must fit `isize`.
pub const LARGEST_REQUEST: usize = isize::MAX as usize;

/// Of so many requests that reach the slow path one counts as a sample of what is asked for.
const REQUESTS_PER_SAMPLE: u64 = 4;

/// All of it in an engine that has started.
impl<O: Os> Engine<O> {
    /// A block of a class for a request of `bytes`.
    pub(crate) fn take(&self, inside: Inside<'_>, class: SizeClass, bytes: usize) -> Leaving {
        let refill = || Fresh { address: self.obeyed(self.cache.refill(&self.store, class)), zeroed: false };
        Leaving::new(self.take_by(inside, class, bytes, refill).address)
    }

    /// The same, all of whose bytes read as zeros: without writing to memory that is known to. No block of a class that has
    /// keys.
    pub(crate) fn take_zeroed(&self, inside: Inside<'_>, class: SizeClass, bytes: usize) -> usize {
        let fresh = self.take_by(inside, class, bytes, || self.cache.refill_zeroed(&self.store, class));
        if fresh.address != 0 {
            self.large.clear(&self.os, &self.pages, fresh, bytes);
        }
        fresh.address
    }

    fn take_by(
        &self,
        inside: Inside<'_>,
        class: SizeClass,
        bytes: usize,
        attempt: impl Fn() -> Fresh,
    ) -> Fresh {
        self.upkeep.settle_bound_if_needed(&self.floors);
        self.learn_limits(inside);
        // Some of the requests tell as much as all, and do not make CPUs wait for each other's counts.
        let sampled = self.cache.underflows_here().is_multiple_of(REQUESTS_PER_SAMPLE);
        if let Some(sample) = self.requested.get(class.index()).filter(|_| sampled) {
            // Not one step each: two CPUs that count at once lose one sample, a locked instruction costs
            // every miss.
            sample.bytes.store(sample.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
            sample.count.store(sample.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let mut is_relieved = false;
        loop {
            let taken = attempt();
            if taken.address != 0 {
                return taken;
            }
            if is_relieved {
                self.upkeep.note_refusal(&self.floors);
                return taken;
            }
            // With the caches' blocks back in their spans there may be a span after all.
            self.relieve();
            is_relieved = true;
        }
    }

    pub(crate) fn take_large(&self, inside: Inside<'_>, bytes: usize, align: usize) -> Option<Fresh> {
        if bytes > LARGEST_REQUEST {
            return None;
        }
        self.learn_limits(inside);
        let attempt = || self.large.allocate(&self.os, &self.pages, bytes, align);
        attempt().or_else(|| {
            let could_help = self.upkeep.could_help(&self.floors, bytes, align);
            let taken = if could_help { self.attempt_relieved(attempt) } else { None };
            if taken.is_none() {
                self.upkeep.note_refusal(&self.floors);
            }
            taken
        })
    }

    /// A block of a tenant's heap.
    pub(crate) fn take_of_tenant(
        &self,
        _: Inside<'_>,
        id: HeapId,
        class: Option<SizeClass>,
        bytes: usize,
        align: usize,
    ) -> Result<Fresh, Refusal> {
        if bytes > LARGEST_REQUEST {
            return Err(Refusal::Memory);
        }
        let attempt = || match class {
            Some(class) => self.obeyed(self.tenants.take(&self.store, &self.cache, id, class)),
            None => self.tenants.take_large(&self.store, id, bytes, align),
        };
        match attempt() {
            Err(Refusal::Memory) => {
                self.relieve();
                attempt().inspect_err(|_| self.upkeep.note_refusal(&self.floors))
            }
            // Blocks that caches hold may be whole spans.
            Err(Refusal::Limit(of)) if self.obeyed(self.tenants.make_room(&self.store, of, id)) => attempt(),
            outcome => outcome,
        }
    }

    fn attempt_relieved(&self, attempt: impl Fn() -> Option<Fresh>) -> Option<Fresh> {
        self.relieve();
        attempt()
    }

    /// Reads the limits once when the heap is no longer small.
    #[inline]
    pub(crate) fn learn_limits(&self, _: Inside<'_>) {
        self.obeyed(self.upkeep.learn_limits(&self.floors));
    }

    /// Brings everything back that can come back, now.
    #[cold]
    #[inline(never)]
    fn relieve(&self) {
        self.obeyed(self.upkeep.relieve(&self.floors));
    }
}
