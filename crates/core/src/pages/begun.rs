//! New blocks of a heap that grows densely become huge pages at once, before the program writes to them.
//!
//! The thread that takes a run notes under the lock which blocks began with it. When the slow path has left all locks
//! it looks whether the heap fills what it takes: in *probes*, blocks that were left to page faults
//! (docs/design/growth.md).

use super::ahead::NONE;
use super::runs::Huge;
use super::{BLOCK_BYTES, BLOCK_UNITS, Pages, State};
use crate::base::PAGE_BYTES;
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::{Guard, Os};

/// From here on it is looked whether blocks are filled: 2 MiB.
const LEAST_UNITS: u64 = BLOCK_UNITS as u64;
/// In a heap of fewer blocks a huge page that stays half empty would be too much: 8 MiB.
const LEAST_BYTES: usize = 4 * BLOCK_BYTES;
/// In place of a count: one block, of which it is known that it will be filled.
const DENSE: u32 = u32::MAX;
/// A heap with more free memory than this part of what is in use does not need memory so much.
const FREE_PART: u64 = 8;
/// A run of several blocks is at most this part of the heap: it may stay untouched.
const RUN_PART: u64 = 4;
/// The room that memory taken ahead leaves below a limit: this part of what the heap holds, and so many bytes.
const LEFT_PART: usize = 8;
const LEFT_BYTES: usize = 16 << 20;
/// A probe is dense where so much of it is in memory.
const DENSE_BYTES: usize = BLOCK_BYTES - BLOCK_BYTES / 32;
/// One block in so many of the heap is a probe, and of those that begin alone at most one in five, but for small heaps:
/// a block on credit may stay empty.
const BLOCKS_PER_PROBE: u32 = 16;
const LEAST_CREDIT: u32 = 4;
const CREDIT_PART: u32 = 4;
/// To take a block by page faults costs about as long: a system that needs longer for a huge page is out of them.
const SLOW_NANOSECONDS: u64 = 1_000_000;

impl<O: Os> Pages<O> {
    /// Notes the blocks that began with a run for `class` that ends before unit `end`. A run `with_room` leaves most of
    /// its block empty.
    pub(super) fn note_begun(
        &self,
        state: &mut Guard<'_, State, O>,
        end: u32,
        class: SizeClass,
        with_room: bool,
    ) {
        let Some(first) = state.runs.take_begun() else { return };
        let count = (end / BLOCK_UNITS).saturating_sub(first).max(1);
        if !with_room && self.is_worth_it(state, count) {
            // A program that writes anything to a block of a page or less has its page.
            let is_dense = class.is_small() && class.block_bytes() <= PAGE_BYTES;
            let how = if is_dense { DENSE } else { count };
            self.ahead.begun.store(u64::from(first) << u32::BITS | u64::from(how), Ordering::Relaxed);
        }
    }

    fn is_worth_it(&self, state: &Guard<'_, State, O>, count: u32) -> bool {
        let (used, free) = (state.runs.used, state.runs.dirty_free);
        let limit = self.limits.soft().unwrap_or(usize::MAX).min(self.limits.hard().unwrap_or(usize::MAX));
        let footprint = self.footprint_of(state);
        let left = footprint / LEFT_PART + LEFT_BYTES;
        self.ahead.is_allowed.load(Ordering::Relaxed)
            && self.may_have_huge_pages()
            && used >= LEAST_UNITS
            && free <= used / FREE_PART
            && (count == 1 || u64::from(count) * u64::from(BLOCK_UNITS) <= used / RUN_PART)
            && footprint.saturating_add(count as usize * BLOCK_BYTES).saturating_add(left) <= limit
    }

    /// Whether blocks may become huge pages as they begin: the option says so.
    pub fn allow_ahead(&self, is_allowed: bool) {
        self.ahead.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Nanoseconds spent on huge pages here.
    pub fn nanoseconds_ahead(&self) -> u64 {
        self.ahead.nanoseconds.load(Ordering::Relaxed)
    }

    /// Puts blocks that began onto huge pages where the heap fills what it takes. To be called without a lock.
    #[inline]
    pub fn grow_ahead(&self, os: &O) {
        if self.ahead.begun.load(Ordering::Relaxed) != 0 {
            self.look_at_begun(os);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_begun(&self, os: &O) {
        let begun = self.ahead.begun.swap(0, Ordering::Relaxed);
        let (first, count) = ((begun >> u32::BITS) as u32, begun as u32);
        if count == 0 || self.is_little() && count == DENSE || self.ahead.is_paused() {
            return;
        }
        let granted = if count == DENSE { 1 } else { self.granted(os, first, count) };
        for number in first..first + granted {
            let before = os.now();
            let done = self.make_whole(os, number);
            let took = os.now().saturating_sub(before);
            self.ahead.nanoseconds.fetch_add(took, Ordering::Relaxed);
            let went_well = done && took < SLOW_NANOSECONDS;
            self.ahead.learn(went_well);
            if !went_well {
                break;
            }
        }
    }

    /// How many of the blocks, from the first on, may become huge pages.
    fn granted(&self, os: &O, first: u32, count: u32) -> u32 {
        let ground = if count > 1 { &self.ahead.several } else { &self.ahead.alone };
        let credit = ground.credit.load(Ordering::Relaxed);
        if credit >= count {
            ground.credit.store(credit - count, Ordering::Relaxed);
            return count;
        }
        let last = first + count - 1;
        let known = if count > 1 { last } else { ground.next.swap(last, Ordering::Relaxed) };
        let is_dense = self.is_dense(os, ground.probe.swap(known, Ordering::Relaxed));
        let blocks = (self.mapped_bytes() / BLOCK_BYTES) as u32;
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
                .resident_bytes(self.address_of(probe * BLOCK_UNITS), BLOCK_BYTES)
                .is_some_and(|resident| resident >= DENSE_BYTES)
    }

    /// Puts a block onto a huge page. From then on its free units hold memory: the janitor gives it back where nobody
    /// takes it. A block that is refused is as it was, but for a page.
    fn make_whole(&self, os: &O, number: u32) -> bool {
        let address = self.address_of(number * BLOCK_UNITS);
        if !os.take_huge(address, BLOCK_BYTES) {
            return false;
        }
        let mut state = self.lock();
        // SAFETY: blocks belong to the holder of the state.
        if unsafe { (*self.blocks.at(number as usize)).huge } == Huge::No {
            state.runs.note_whole(&self.blocks, number);
            self.huge_blocks.fetch_add(1, Ordering::Relaxed);
            self.ahead.newest.store(number, Ordering::Relaxed);
            self.limits.footprint.note(self.footprint_of(&state));
        }
        true
    }

    /// Whether an address lies in the block that became a huge page last: nothing is left to be brought in.
    pub fn is_newest_huge(&self, address: usize) -> bool {
        self.ahead.newest.load(Ordering::Relaxed) == self.unit_of(address) / BLOCK_UNITS
    }

    /// Whether a huge page lies under an address of a block in use: then to write is cheaper than to give back.
    pub fn is_huge(&self, address: usize) -> bool {
        if self.huge_blocks.load(Ordering::Relaxed) == 0 || self.class_of(address) == SizeClass::NONE {
            return false;
        }
        let _held = self.lock();
        // SAFETY: blocks belong to the holder of the state; an address of ours lies in a block.
        unsafe { (*self.blocks.at((self.unit_of(address) / BLOCK_UNITS) as usize)).huge == Huge::Yes }
    }
}
