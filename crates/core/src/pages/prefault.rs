//! Prefault: the kernel backs fresh huge pages of a heap that grows densely by its own at once, before the program writes to
//! them.
//!
//! The thread that takes a run notes under the lock which huge pages began with it. When the slow path has left all locks
//! it looks whether the heap fills what it takes: in *probes*, huge pages that were left to page faults
//! (docs/design/growth.md).

use super::filled::{Filled, MOST_AHEAD};
use super::runs::Huge;
use super::{HUGE_PAGE_BYTES, HUGE_PAGE_UNITS, Pages, State};
use crate::base::PAGE_BYTES;
use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::class::SizeClass;
use crate::os::{Guard, Os};

/// From here on it is looked whether huge pages are filled: 2 MiB.
const LEAST_UNITS: u64 = HUGE_PAGE_UNITS as u64;
/// In a heap of fewer huge pages one that stays half empty would be too much: 8 MiB.
const LEAST_BYTES: usize = 4 * HUGE_PAGE_BYTES;
/// In place of a count: one huge page, of which it is known that it will be filled, and one that begins with a block that has
/// room to grow.
const DENSE: u32 = u32::MAX;
const GROWING: u32 = u32::MAX - 1;
/// Beside a count: they are more than a part of the heap, or much else is free: probes do not speak for them.
const LONG: u32 = 1 << 31;
/// A heap with more free memory than this part of what is in use does not need memory so much.
const FREE_PART: u64 = 8;
/// A run of several huge pages is at most this part of the heap: it may stay untouched.
const RUN_PART: u64 = 4;
/// The room that memory taken ahead leaves below a limit: this part of what the heap holds, and so many bytes.
const LEFT_PART: usize = 8;
const LEFT_BYTES: usize = 16 << 20;
/// A probe is dense where so much of it is in memory.
const DENSE_BYTES: usize = HUGE_PAGE_BYTES - HUGE_PAGE_BYTES / 32;
/// One huge page in so many of the heap is a probe, and of those that begin alone at most one in five, but for small heaps:
/// a huge page on credit may stay empty.
const BLOCKS_PER_PROBE: u32 = 16;
const LEAST_CREDIT: u32 = 4;
const CREDIT_PART: u32 = 4;
/// To take a huge page by page faults costs about as long: a kernel that needs longer for one of its own is out of them.
const SLOW_NANOSECONDS: u64 = 1_000_000;

/// After a slow prefault, or a refusal, so many huge pages go by: ever more while none goes well. A single slow one says little: the
/// thread may have lost its CPU meanwhile, or a host had to bring in that memory.
const LEAST_PAUSE: u32 = 1;
const LONGER_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 256;
pub const NONE: u32 = u32::MAX;

/// Experience with one kind of growth.
pub struct Ground {
    /// The huge page that tells next whether what is taken is filled.
    pub probe: AtomicU32,
    /// The one after it, of which the last huge pages may still wait in a cache to be written.
    pub next: AtomicU32,
    /// Huge pages that may be prefaulted until then.
    pub credit: AtomicU32,
}

impl Ground {
    const fn new() -> Self {
        Ground { probe: AtomicU32::new(NONE), next: AtomicU32::new(NONE), credit: AtomicU32::new(0) }
    }
}

/// How the heap grows. Nothing here is exact: two threads at once cost one prefault at most.
pub struct Prefault {
    /// The first huge page that began and was not looked at yet, below how many there are; 0: none.
    pub fresh: AtomicU64,
    /// Huge pages that begin alone; those that begin with a block that has room to grow, most of which is empty at first; and
    /// those that begin several at a time, for one large block.
    pub alone: Ground,
    pub growing: Ground,
    pub several: Ground,
    pub filled: Filled,
    /// The huge page that was prefaulted last.
    pub newest: AtomicU32,
    /// Huge pages that go by, and how many did the last time.
    pause: AtomicU32,
    last_pause: AtomicU32,
    /// By option.
    pub is_allowed: AtomicBool,
    pub nanoseconds: AtomicU64,
}

impl Prefault {
    pub const fn new() -> Self {
        Prefault {
            fresh: AtomicU64::new(0),
            alone: Ground::new(),
            growing: Ground::new(),
            several: Ground::new(),
            filled: Filled::new(),
            newest: AtomicU32::new(NONE),
            pause: AtomicU32::new(0),
            last_pause: AtomicU32::new(0),
            is_allowed: AtomicBool::new(false),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Whether there is a pause as long as so many huge pages, which they shorten.
    pub fn is_paused(&self, huge_pages: u32) -> bool {
        let left = self.pause.load(Ordering::Relaxed);
        self.pause.store(left.saturating_sub(huge_pages), Ordering::Relaxed);
        left >= huge_pages
    }

    /// The system refused or was slow, or it was not. True where it was the second time in a row.
    pub fn learn(&self, went_well: bool) -> bool {
        let last = self.last_pause.load(Ordering::Relaxed);
        let next = if went_well { 0 } else { (LONGER_PAUSE * last).clamp(LEAST_PAUSE, LONGEST_PAUSE) };
        self.last_pause.store(next, Ordering::Relaxed);
        if !went_well {
            self.pause.store(next, Ordering::Relaxed);
        }
        next > LEAST_PAUSE
    }
}

impl<O: Os> Pages<O> {
    /// Notes the huge pages that began with a run for `class` that ends before unit `end`. A run `with_room` leaves most of
    /// its huge page empty at first.
    pub(super) fn note_fresh(
        &self,
        state: &mut Guard<'_, State, O>,
        end: u32,
        class: SizeClass,
        with_room: bool,
    ) {
        let Some(first) = state.runs.take_fresh() else { return };
        let count = (end / HUGE_PAGE_UNITS).saturating_sub(first).max(1);
        let is_long = count > 1
            && (self.is_much_free(state)
                || u64::from(count) * u64::from(HUGE_PAGE_UNITS) > state.runs.used / RUN_PART);
        let is_worth_it = (is_long || !self.is_much_free(state)) && self.is_worth_it(state, count);
        if is_worth_it && !(with_room && count > 1) {
            // A program that writes anything to a block of a page or less has its page.
            let is_dense = class.is_small() && class.block_bytes() <= PAGE_BYTES;
            if is_dense && self.is_little() {
                return;
            }
            let how = match (is_dense, with_room) {
                (true, _) => DENSE,
                (_, true) => GROWING,
                _ if is_long => count | LONG,
                _ => count,
            };
            self.prefault.fresh.store(u64::from(first) << u32::BITS | u64::from(how), Ordering::Relaxed);
        }
    }

    fn is_much_free(&self, state: &Guard<'_, State, O>) -> bool {
        state.runs.dirty_free > state.runs.used / FREE_PART
    }

    fn is_worth_it(&self, state: &Guard<'_, State, O>, count: u32) -> bool {
        let limit = self.limits.soft().unwrap_or(usize::MAX).min(self.limits.hard().unwrap_or(usize::MAX));
        let footprint = self.footprint_of(state);
        let left = footprint / LEFT_PART + LEFT_BYTES;
        self.prefault.is_allowed.load(Ordering::Relaxed)
            && self.may_have_huge_pages()
            && state.runs.used >= LEAST_UNITS
            && footprint.saturating_add(count as usize * HUGE_PAGE_BYTES).saturating_add(left) <= limit
    }

    /// Whether huge pages may be prefaulted: the option says so.
    pub fn allow_prefault(&self, is_allowed: bool) {
        self.prefault.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Nanoseconds spent here.
    pub fn prefault_nanoseconds(&self) -> u64 {
        self.prefault.nanoseconds.load(Ordering::Relaxed)
    }

    /// Prefaults fresh huge pages where the heap fills what it takes. To be called without a lock.
    #[inline]
    pub fn prefault(&self, os: &O) {
        if self.prefault.fresh.load(Ordering::Relaxed) != 0 {
            self.look_at_fresh(os);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_fresh(&self, os: &O) {
        let fresh = self.prefault.fresh.swap(0, Ordering::Relaxed);
        let (first, count) = ((fresh >> u32::BITS) as u32, fresh as u32);
        let huge_pages = if count >= GROWING { 1 } else { count & !LONG };
        if count == 0 || self.prefault.is_paused(huge_pages) {
            return;
        }
        let granted = match count {
            DENSE => 1,
            GROWING => self.granted(os, &self.prefault.growing, first, 1),
            1 => self.granted(os, &self.prefault.alone, first, 1),
            _ => self.granted_of_several(os, first, count),
        };
        for number in first..first + granted {
            let before = os.now();
            let done = self.make_whole(os, number);
            let took = os.now().saturating_sub(before);
            self.prefault.nanoseconds.fetch_add(took, Ordering::Relaxed);
            if self.prefault.learn(done && took < SLOW_NANOSECONDS) {
                break;
            }
        }
    }

    /// Of those that begin with one block: what probes say, or what was learned of such blocks.
    fn granted_of_several(&self, os: &O, first: u32, how: u32) -> u32 {
        let count = how & !LONG;
        let granted =
            if how & LONG != 0 { 0 } else { self.granted(os, &self.prefault.several, first, count) };
        if granted == 0 && self.prefault.filled.grants(count) {
            return count.min(MOST_AHEAD);
        }
        if granted == 0 {
            self.prefault.filled.watch(first, count);
        }
        granted
    }

    /// How many of the huge pages, from the first on, may be prefaulted.
    fn granted(&self, os: &O, ground: &Ground, first: u32, count: u32) -> u32 {
        let credit = ground.credit.load(Ordering::Relaxed);
        if credit >= count {
            ground.credit.store(credit - count, Ordering::Relaxed);
            return count;
        }
        let last = first + count - 1;
        let known = if count > 1 { last } else { ground.next.swap(last, Ordering::Relaxed) };
        let is_dense = self.is_dense(os, ground.probe.swap(known, Ordering::Relaxed));
        let blocks = (self.mapped_bytes() / HUGE_PAGE_BYTES) as u32;
        let part = blocks / BLOCKS_PER_PROBE;
        let credit = if count > 1 { part } else { part.max(LEAST_CREDIT.min(blocks / CREDIT_PART)) };
        let is_dense = is_dense && !self.is_little();
        ground.credit.store(if is_dense { credit } else { 0 }, Ordering::Relaxed);
        if is_dense { count - 1 } else { 0 }
    }

    fn is_little(&self) -> bool {
        self.mapped_bytes() <= LEAST_BYTES
    }

    fn is_dense(&self, os: &O, probe: u32) -> bool {
        probe != NONE
            && os
                .resident_bytes(self.address_of(probe * HUGE_PAGE_UNITS), HUGE_PAGE_BYTES)
                .is_some_and(|resident| resident >= DENSE_BYTES)
    }

    /// Prefaults a huge page. From then on its free units hold memory: the janitor gives it back where nobody
    /// takes it. A huge page that is refused is as it was, but for a page.
    fn make_whole(&self, os: &O, number: u32) -> bool {
        let address = self.address_of(number * HUGE_PAGE_UNITS);
        if !os.take_huge(address, HUGE_PAGE_BYTES) {
            return false;
        }
        let mut state = self.lock();
        // SAFETY: huge pages belong to the holder of the state.
        if unsafe { (*self.huge.at(number as usize)).huge } == Huge::No {
            state.runs.note_whole(&self.huge, number);
            self.huge_backed.fetch_add(1, Ordering::Relaxed);
            self.prefault.newest.store(number, Ordering::Relaxed);
            self.limits.footprint.note(self.footprint_of(&state));
        }
        true
    }

    /// Whether an address lies in the huge page that was prefaulted last: nothing is left to be brought in.
    pub fn is_newest_huge(&self, address: usize) -> bool {
        self.prefault.newest.load(Ordering::Relaxed) == self.unit_of(address) / HUGE_PAGE_UNITS
    }

    /// Whether the kernel backs an address of a block in use by a huge page: then to write is cheaper than to give back.
    pub fn is_huge(&self, address: usize) -> bool {
        if self.huge_backed.load(Ordering::Relaxed) == 0 || self.class_of(address) == SizeClass::NONE {
            return false;
        }
        let _held = self.lock();
        // SAFETY: huge pages belong to the holder of the state; an address of ours lies in a huge page.
        unsafe { (*self.huge.at((self.unit_of(address) / HUGE_PAGE_UNITS) as usize)).huge == Huge::Yes }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_slow_huge_page_costs_one_turn_and_several_in_a_row_ever_more() {
        let prefault = Prefault::new();
        assert!(!prefault.learn(false) && prefault.is_paused(1) && !prefault.is_paused(1));
        prefault.learn(true);
        assert!(!prefault.learn(false) && !prefault.is_paused(8), "a long block is no turn of one");
        assert!(prefault.learn(false), "two in a row");
        assert_eq!((0..9).filter(|_| prefault.is_paused(1)).count(), 4);
        (0..9).for_each(|_| _ = prefault.learn(false));
        assert_eq!((0..999).filter(|_| prefault.is_paused(1)).count(), 256);
        assert!(!prefault.learn(true) && !prefault.is_paused(1));
    }
}
