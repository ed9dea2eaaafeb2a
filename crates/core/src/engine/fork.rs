//! Children: processes with a copy of this heap, and with one of the threads that used it.
//!
//! A thread that forks takes no lock. The child has the locks as they were, some held by threads that stayed in the
//! parent, and what those guard half changed. It is recognised by a word that the kernel zeroes in every
//! child, however that was made; its first slow path then takes such locks over and puts right what they
//! guard. A lock that this very thread holds, in the work that a signal handler interrupted, is left alone:
//! that work goes on. docs/design/fork.md tells the whole.

use super::reentry::Entry;
use super::{Above, Engine};
use crate::base::locks::Rank;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, pause};
use crate::base::ticks::Ticks;
use crate::os::{LENT, Os};

const NEW: u32 = 0;
const KNOWN: u32 = 1;
/// One thread puts the heap right; the others wait.
const REPAIRED: u32 = 2;

/// Whether this process is the one that the heap was last used in.
pub struct Process {
    /// The address of the word that tells: a word that the kernel zeroes, or `own`; 0 before the heap has started.
    word: AtomicUsize,
    /// If the system zeroes none: set by `look_for_fork`, which compares the numbers of processes.
    own: AtomicU32,
    /// That of the process that the heap was started or last put right in.
    number: AtomicU64,
}

impl Process {
    pub const fn new() -> Self {
        Process { word: AtomicUsize::new(0), own: AtomicU32::new(KNOWN), number: AtomicU64::new(0) }
    }

    pub fn start<O: Os>(&self, os: &O) {
        if self.word.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.number.store(os.process_number(), Ordering::Relaxed);
        let word = os.process_word();
        if let Some(word) = word {
            // First: other threads that find the word must not take this process for a new one, and its locks over.
            // SAFETY: the word is ours and stays mapped.
            unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(word) }
                .store(KNOWN, Ordering::Relaxed);
        }
        let word = word.unwrap_or_else(|| self.own.as_ptr().expose_provenance());
        // Pairs with the Acquire in `state`.
        self.word.store(word, Ordering::Release);
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn address(&self) -> usize {
        match self.word.load(Ordering::Relaxed) {
            own if own == self.own.as_ptr().addr() => 0,
            word => word,
        }
    }

    #[inline]
    fn state(&self) -> Option<&AtomicU32> {
        match self.word.load(Ordering::Acquire) {
            0 => None,
            // SAFETY: the word is ours and stays mapped.
            word => Some(unsafe { &*core::ptr::with_exposed_provenance(word) }),
        }
    }

    #[inline]
    fn is_known(&self) -> bool {
        self.state().is_none_or(|state| state.load(Ordering::Acquire) == KNOWN)
    }

    fn set(&self, value: u32) {
        if let Some(state) = self.state() {
            // Release pairs with the Acquire in `is_known`: a thread that finds the process known finds the heap right.
            state.store(value, Ordering::Release);
        }
    }

    /// True for the one thread that is to put the heap right.
    fn claim(&self) -> bool {
        self.state().is_some_and(|state| {
            state.compare_exchange(NEW, REPAIRED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// Does the kernel's part where it says that it does not do it. For a thread that is about to make another one: a process
    /// that shares this memory may be about to, too, where the kernel zeroes the word.
    pub fn look_for_fork<O: Os>(&self, os: &O) {
        if self.word.load(Ordering::Relaxed) == self.own.as_ptr().addr() {
            self.compare_numbers(os);
        }
    }

    /// The same for a child of `fork`, also where the kernel says that it zeroes the word and does not (qemu's user mode).
    pub fn look_after_fork<O: Os>(&self, os: &O) {
        if self.is_known() {
            self.compare_numbers(os);
        }
    }

    /// A number that is not the one before says that this is a new process.
    fn compare_numbers<O: Os>(&self, os: &O) {
        let (before, number) = (self.number.load(Ordering::Relaxed), os.process_number());
        if ![0, before].contains(&number) && self.number.swap(number, Ordering::Relaxed) != number {
            self.set(NEW);
        }
    }

    /// Whether this process is a child in the memory of another. Where the kernel zeroes no word, a child with a copy that nobody
    /// has looked for yet has another number too: there a lender tells. In a namespace of its own a child may have its parent's number,
    /// and one that has a filter may not be allowed to ask: a parent that waits notes that it runs nothing on its thread's area.
    pub fn is_anothers<O: Os>(&self, os: &O) -> bool {
        if os.lender() & LENT != 0 && self.is_known() {
            return true;
        }
        let (home, here) = (self.number.load(Ordering::Relaxed), os.process_number());
        if here == 0 {
            return os.has_own_refusals();
        }
        let is_told = || os.lender() != 0 || self.word.load(Ordering::Relaxed) != self.own.as_ptr().addr();
        ![0, here].contains(&home) && self.is_known() && is_told()
    }

    /// Of a process that the heap is put right in: it is no new one any more.
    fn learn_number<O: Os>(&self, os: &O) {
        self.number.store(os.process_number(), Ordering::Relaxed);
    }
}

impl<O: Os> Engine<O> {
    /// Goes into a slow path; none where this thread is in one already. A process that is new is put right first.
    #[inline]
    pub(crate) fn enter_slow_path(&self, above: &impl Above) -> Option<Entry> {
        let entry = self.enter();
        self.know_process(above, entry.is_some());
        entry
    }

    /// Puts the heap right if this is a new process. `outermost`: this thread is not in the middle of a slow
    /// path.
    #[inline]
    fn know_process(&self, above: &impl Above, outermost: bool) {
        if !self.process.is_known() {
            self.meet_process(above, outermost);
        }
    }

    #[cold]
    #[inline(never)]
    fn meet_process(&self, above: &impl Above, outermost: bool) {
        if self.process.claim() {
            self.process.learn_number(&self.os);
            // SAFETY: the process is new, and its other threads, if it has any yet, wait below.
            unsafe { self.repair(above, outermost) };
        }
        // A handler that interrupted the repair must not wait for it.
        while outermost && !self.process.is_known() {
            pause();
        }
    }

    /// # Safety
    /// All threads that were in slow paths, but this one, stayed in the parent process. `outermost`: this one
    /// is in none that a signal handler interrupted.
    pub(crate) unsafe fn repair(&self, above: &impl Above, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            // From the last to the first: the data under a lock is made right from the data under those behind it.
            Rank::ALL.into_iter().rev().for_each(|rank| self.repair_lock(above, rank, outermost));
        }
        // Nobody lends this process its memory: it has a copy.
        self.os.set_lender(0);
        self.os.share_own_refusals();
        // This process may want again, without reproach, memory that its parent gave back.
        let now = self.pages.clock.advance(Ticks(1));
        self.pages.forget_returned(now);
        self.upkeep.forget_threads(now);
        self.pages.limits.free.set(0);
        self.pending_fault.forget_teller();
        above.begin_process();
        self.process.set(KNOWN);
    }

    /// Puts right what is under the locks of one rank; those of later ranks are right already.
    ///
    /// # Safety
    /// As `repair` asks for.
    unsafe fn repair_lock(&self, above: &impl Above, rank: Rank, outermost: bool) {
        // SAFETY: by the caller's promise.
        unsafe {
            match rank {
                Rank::Starting => self.starting.take_over(outermost),
                Rank::Relieving => self.upkeep.relieving.take_over(outermost),
                Rank::Exporting | Rank::Profile => above.repair(rank, outermost),
                Rank::Guards => self.sources.guards.repair(outermost),
                Rank::Freezer => {
                    self.cache.repair_freezer(&self.store, outermost);
                    self.tenants.repair_caches(&self.store, outermost);
                }
                Rank::Slab => {
                    let is_new = outermost && self.is_new_thread();
                    self.cache.repair_slabs(is_new);
                    self.tenants.each_cache(|cache| cache.repair_slabs(is_new));
                }
                Rank::Transfer => self.central.repair_transfers(outermost),
                Rank::Tenant => self.tenants.repair_rooms(&self.pages, outermost),
                Rank::Tenants => self.tenants.repair_registry(outermost),
                Rank::Spans => self.central.repair_spans(&self.pages, outermost),
                // With the state: the withheld units are a part of it.
                Rank::Growing | Rank::Releasing => (),
                Rank::State => self.pages.repair(outermost),
            }
        }
    }

    /// Not the one that forked, which a child's first thread is.
    fn is_new_thread(&self) -> bool {
        self.os.thread_number() != self.os.process_number()
    }

    /// For the handler of `fork` in the child. If a signal handler forked inside a slow path of its own
    /// thread, that goes on when the handler returns, and may wait for a lock of a thread that stayed behind
    /// before anybody looks: the heap is put right now. Else the child pays for that when it needs the heap.
    pub(crate) fn after_fork(&self, above: &impl Above) {
        self.process.look_after_fork(&self.os);
        self.os.set_lender(0);
        self.os.share_own_refusals();
        if self.is_inside() {
            self.know_process(above, false);
        }
    }
}

#[cfg(test)]
mod tests;
