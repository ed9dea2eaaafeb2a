//! Start of the caches, and their end in a process that aborts.

use super::tables::EMPTY_BYTES;
use super::{Cache, EXTRA_LOCKED, FrontKind, FrontReason};
use crate::base::ceilings::LOCKED_SLABS;
use crate::base::sync::Ordering;
use crate::os::{IndexKind, NoSequences, Os, Purpose, SequenceArea};

/// The place where threads are registered, and by whom; or why not.
fn area_and_reason<O: Os>(os: &O) -> (Option<SequenceArea>, FrontReason) {
    if !os.aborts_sequences() {
        return (None, FrontReason::Unaborted);
    }
    if let Some(area) = os.sequence_area() {
        return (Some(area), FrontReason::Libc);
    }
    match os.own_sequence_area() {
        Ok(area) => (Some(area), FrontReason::Own),
        Err(NoSequences::Kernel) => (None, FrontReason::Kernel),
        Err(NoSequences::Fence) => (None, FrontReason::Fence),
    }
}

impl<O: Os> Cache<O> {
    /// Prepares the tables and turns the sequences on where the system has them and `locked` does not forbid
    /// it.
    pub fn start(&self, os: &O, locked: bool) -> bool {
        let (area, reason) = if locked { (None, FrontReason::Asked) } else { area_and_reason(os) };
        self.reason.store(reason as u32, Ordering::Relaxed);
        let cpus = if area.is_some() { os.possible_cpus() } else { 0 };
        // All threads use these where our own registration turns out to be another's business.
        let is_sure = reason == FrontReason::Libc;
        let under_locks = if is_sure { EXTRA_LOCKED } else { (os.usable_cpus(0) * 2).min(LOCKED_SLABS) };
        let Some(base) = self.start_tables(os, cpus, cpus + under_locks) else { return false };
        if let Some(area) = area {
            let kind = match area.kind {
                IndexKind::ConcurrencyId => FrontKind::ConcurrencyId,
                IndexKind::CpuId => FrontKind::CpuId,
            };
            self.kind.store(kind as u32, Ordering::Relaxed);
            self.behind.start(area.area, area.index, base + EMPTY_BYTES, cpus);
            self.front.start(area.area, area.index, base + EMPTY_BYTES, cpus);
        }
        true
    }

    /// Maps the tables for so many slots, and has all of them show the empty slab; the address.
    fn start_tables(&self, os: &O, cpus: usize, slots: usize) -> Option<usize> {
        let bytes = Self::table_bytes(slots);
        let base = os.reserve(bytes)?;
        if !os.commit(base, bytes) {
            os.unmap(base, bytes);
            return None;
        }
        os.name_pages(base, bytes, Purpose::Tables);
        self.base.store(base, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        for slot in 0..slots {
            self.in_use(slot).store(base, Ordering::Relaxed);
            self.closed_of(slots, slot).store(base, Ordering::Relaxed);
        }
        // Release pairs with the Acquire of threads that ask whether there are tables: they are whole.
        self.slots.store(slots, Ordering::Release);
        Some(base)
    }

    /// Prepares the tables of a further cache, for a tenant's heap, as those of the process's own are.
    pub fn start_as(&self, os: &O, other: &Cache<O>) -> bool {
        let [cpus, slots] = [&other.cpus, &other.slots].map(|count| count.load(Ordering::Acquire));
        self.kind.store(other.kind.load(Ordering::Relaxed), Ordering::Relaxed);
        self.reason.store(other.reason.load(Ordering::Relaxed), Ordering::Relaxed);
        let Some(base) = self.start_tables(os, cpus, slots) else { return false };
        if other.behind.is_on() {
            self.behind.start_on(&other.behind, base + EMPTY_BYTES);
            self.front.start_on(&other.behind, base + EMPTY_BYTES);
        }
        true
    }

    /// Turns the fast paths' sequences off, and waits for those under way. False where they were off.
    pub fn close_front(&self, os: &O) -> bool {
        let is_on = self.front.is_on();
        if is_on {
            self.front.stop(self.closed(0).as_ptr().expose_provenance());
            // If that is refused, a few calls that have begun are not seen.
            os.fence_sequences();
        }
        is_on
    }

    /// Turns them on again.
    pub fn open_front(&self) {
        self.front.start_as(&self.behind);
    }

    /// Turns the sequences off for all that begin from now on, for good: every virtual CPU finds an empty
    /// slab without room, also one whose slab is being emptied now and put back.
    pub fn stop(&self) {
        if self.base.load(Ordering::Relaxed) != 0 {
            let closed = self.closed(0).as_ptr().expose_provenance();
            self.front.stop(closed);
            self.behind.stop(closed);
        }
    }
}
