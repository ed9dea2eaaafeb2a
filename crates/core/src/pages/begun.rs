//! New blocks of a heap that grows densely become huge pages at once, before the program writes to them.
//!
//! Whoever takes a run notes under the lock which blocks began with it. When the slow path has left all locks it looks
//! whether the heap fills what it takes: in *probes*, blocks that were left to page faults (docs/design/growth.md).

use super::ahead::NONE;
use super::runs::Huge;
use super::{BLOCK_BYTES, BLOCK_UNITS, Pages, State};
use crate::base::sync::Ordering;
use crate::class::SizeClass;
use crate::os::{Guard, Os};

/// Below this a huge page that stays half empty would be too much of the heap: 32 MiB.
const LEAST_UNITS: u64 = 16 * BLOCK_UNITS as u64;
/// A heap with more free memory than this part of what is in use does not need memory so much.
const FREE_PART: u64 = 8;
/// A run of several blocks is at most this part of the heap: it may stay untouched.
const RUN_PART: u64 = 4;
/// What is left below a limit before memory is taken ahead: this part of what the heap holds, and so many bytes.
const LEFT_PART: usize = 8;
const LEFT_BYTES: usize = 16 << 20;
/// A probe is dense where so much of it is in memory.
const DENSE_BYTES: usize = BLOCK_BYTES - BLOCK_BYTES / 32;
/// One block in so many of the heap is a probe, and of those that begin alone at most one in five.
const BLOCKS_PER_PROBE: u32 = 16;
const LEAST_CREDIT: u32 = 4;
/// To take a block by page faults costs about as long: a system that needs longer for a huge page is out of them.
const SLOW_NANOSECONDS: u64 = 1_000_000;

impl<O: Os> Pages<O> {
    /// Notes the blocks that began with a run that ends before unit `end`. A run `with_room` leaves most of its block
    /// empty.
    pub(super) fn note_begun(&self, state: &mut Guard<'_, State, O>, end: u32, with_room: bool) {
        let Some(first) = state.runs.take_begun() else { return };
        let count = (end / BLOCK_UNITS).saturating_sub(first).max(1);
        if !with_room && self.is_worth_it(state, count) {
            self.ahead.begun.store(u64::from(first) << u32::BITS | u64::from(count), Ordering::Relaxed);
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
        if count == 0 || self.ahead.is_paused() {
            return;
        }
        for number in first..first + self.granted(os, first, count) {
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
        let part = (self.mapped_bytes() / BLOCK_BYTES) as u32 / BLOCKS_PER_PROBE;
        let credit = if count > 1 { part } else { part.max(LEAST_CREDIT) };
        ground.credit.store(if is_dense { credit } else { 0 }, Ordering::Relaxed);
        if is_dense { count - 1 } else { 0 }
    }

    fn is_dense(&self, os: &O, probe: u32) -> bool {
        probe != NONE
            && os
                .resident_bytes(self.address_of(probe * BLOCK_UNITS), BLOCK_BYTES)
                .is_some_and(|resident| resident >= DENSE_BYTES)
    }

    /// Puts a block onto a huge page. From then on its free units hold memory: the janitor gives it back where nobody
    /// takes it. One that is refused is as it was, but for a page.
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
            self.limits.note(self.footprint_of(&state));
        }
        true
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
