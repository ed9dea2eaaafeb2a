//! Guarded samples: blocks on pages of their own, between pages that nobody can touch.
//!
//! ```text
//! | guard | page of slot 0 | guard | page of slot 1 | guard | ... | wide slot 0 | guard | wide slot 1 | guard | ...
//! ```
//!
//! A slot's page is open while its block is live. Freed, it is closed and waits as long as the slots allow
//! before it is used again: untouched slots come first, then the one that was freed longest ago. The wide slots are for the
//! first large blocks of a process, one each: of a slot only the pages of its block are ever open, the last ones. Freed, they
//! stay closed for good.

mod arena;
mod places;

use super::Source;
use super::slot::{LIVE, Slot};
use crate::base::chance::next_random;
use crate::base::fault::{Fault, Misuse};
use crate::base::locks::{Rank, Ranked};
use crate::base::place::Places;
use crate::base::stack::Trace;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::os::{Guard, Mutex, Os};
use crate::pages::Table;
use core::mem::offset_of;

/// The wait for the next sample doubles so many times until all slots hold live blocks.
const DOUBLINGS: u64 = 16;
/// The first so many large blocks of a process are guarded.
const WIDE_SLOTS: u32 = 4;
const WIDE_BYTES: usize = 1 << 20;
/// The guarded samples of a heap. Any thread may call.
pub struct Guards<O: Os> {
    /// 0 until the first sample.
    base: AtomicUsize,
    bytes: AtomicUsize,
    page: AtomicUsize,
    pub(super) slots: Table<Slot>,
    slot_count: AtomicU32,
    /// One more than the system has room for; 0 before it was asked.
    slots_allowed: AtomicUsize,
    live: AtomicU32,
    next_sample: AtomicU64,
    /// Large blocks that were to be guarded.
    wide: AtomicU32,
    state: Mutex<State, O>,
}

struct State {
    /// No arena could be had: nobody asks again.
    failed: bool,
    /// Slots that were ever used.
    used: u32,
    /// The queue of freed slots.
    first: u32,
    last: u32,
    random: u64,
    requested: u64,
    /// Bytes of pages that are open.
    open: u64,
    samples: u64,
}

impl Ranked for State {
    const RANK: Rank = Rank::Guards;
}

/// The places of numbers about samples, for readers outside the process (docs/design/window.md).
impl<O: Os> Guards<O> {
    pub(crate) const fn places(list: Places, at: usize) -> Places {
        let state = at + offset_of!(Self, state) + Mutex::<State, O>::VALUE;
        Table::<Slot>::places(list, "guards", at + offset_of!(Self, slots))
            .one("guards.base", 8, at + offset_of!(Self, base))
            .one("guards.bytes", 8, at + offset_of!(Self, bytes))
            .one("guards.page", 8, at + offset_of!(Self, page))
            .one("guards.live", 4, at + offset_of!(Self, live))
            .one("guards.open", 8, state + offset_of!(State, open))
            .one("guards.requested", 8, state + offset_of!(State, requested))
            .one("guards.samples", 8, state + offset_of!(State, samples))
    }
}

const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct GuardStats {
    pub live_blocks: u64,
    /// Bytes of the pages that live blocks are on, and bytes asked for.
    pub bytes: u64,
    pub requested: u64,
    /// Samples since the start.
    pub samples: u64,
}

impl<O: Os> Guards<O> {
    pub const fn new() -> Self {
        Guards {
            base: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            page: AtomicUsize::new(0),
            slots: Table::new(),
            slot_count: AtomicU32::new(0),
            slots_allowed: AtomicUsize::new(0),
            live: AtomicU32::new(0),
            next_sample: AtomicU64::new(0),
            wide: AtomicU32::new(0),
            state: Mutex::new(State {
                failed: false,
                used: 0,
                first: NOBODY,
                last: NOBODY,
                random: 0,
                requested: 0,
                open: 0,
                samples: 0,
            }),
        }
    }

    /// Tells whether the clock allows a sample now, at `rate` a second; if so the next one has to wait.
    pub fn is_due(&self, os: &O, rate: u64) -> bool {
        let (now, next) = (os.now(), self.next_sample.load(Ordering::Relaxed));
        let Some(wait) = 1_000_000_000u64.checked_div(rate) else { return false };
        let slots = self.slot_count.load(Ordering::Relaxed).max(1) as u64;
        let wait = wait << (self.live.load(Ordering::Relaxed) as u64 * DOUBLINGS / slots).min(DOUBLINGS);
        now >= next
            && self
                .next_sample
                .compare_exchange(next, now.saturating_add(wait), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The slot with this number, if it was ever used.
    pub(super) fn slot(&self, number: usize) -> Option<&Slot> {
        let all = (self.slot_count.load(Ordering::Relaxed) + WIDE_SLOTS) as usize;
        if number >= all || number >= self.slots.usable() {
            return None;
        }
        // SAFETY: slots below `usable` have memory. A reader without the lock wants a picture.
        Some(unsafe { &*self.slots.at(number) })
    }

    // The exclusive right comes from the lock, which the compiler cannot see.
    #[allow(clippy::mut_from_ref)]
    fn slot_mut(&self, _held: &Guard<'_, State, O>, number: u32) -> &mut Slot {
        // SAFETY: numbers in the queue and below `State::used` have memory; one reference at a time.
        unsafe { &mut *self.slots.at(number as usize) }
    }

    /// A guarded block on a page of its own, at a random end of it.
    fn allocate_page(&self, os: &O, bytes: usize, align: usize, trace: Trace) -> Option<usize> {
        let mut state = self.state.lock();
        let number = self.take_slot(os, &mut state)?;
        let (page, page_bytes) = (self.page_of(number), self.page_bytes());
        if !os.commit(page, page_bytes) {
            self.put_slot(&mut state, number);
            return None;
        }
        let at_end = next_random(&mut state.random) & 1 == 0;
        let address = if at_end { (page + page_bytes - bytes.max(1)) & !(align - 1) } else { page };
        state.samples += 1;
        state.requested += bytes as u64;
        state.open += page_bytes as u64;
        let slot = self.slot_mut(&state, number);
        slot.open(page, page_bytes, address, bytes, trace);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(address)
    }

    fn take_slot(&self, os: &O, state: &mut Guard<'_, State, O>) -> Option<u32> {
        let fresh = state.used;
        if fresh < self.slot_count.load(Ordering::Relaxed) && self.slots.ensure(os, fresh as usize + 1) {
            state.used += 1;
            return Some(fresh);
        }
        let number = Some(state.first).filter(|first| *first != NOBODY)?;
        state.first = self.slot_mut(state, number).next;
        if state.first == NOBODY {
            state.last = NOBODY;
        }
        Some(number)
    }

    fn put_slot(&self, state: &mut Guard<'_, State, O>, number: u32) {
        self.slot_mut(state, number).next = NOBODY;
        match state.last {
            NOBODY => state.first = number,
            last => self.slot_mut(state, last).next = number,
        }
        state.last = number;
    }

    /// The slot whose live block starts at `address`, which lies in the arena.
    fn find(&self, address: usize) -> Result<u32, Misuse> {
        let number = self.number_of(address).unwrap_or(usize::MAX);
        let Some(slot) = self.slot(number) else { return Err(Misuse::at(Fault::FreeMemory, address)) };
        let fault = match (slot.state(), slot.address == address) {
            (LIVE, true) => return Ok(number as u32),
            (LIVE, false) => Fault::InteriorPointer,
            (super::slot::FREED, true) => Fault::DoubleFree,
            _ => Fault::FreeMemory,
        };
        let block = (slot.address != 0).then_some((slot.address, slot.bytes));
        Err(Misuse { block, ..Misuse::at(fault, address) })
    }

    /// Takes a block back. Writes around it are found here.
    pub fn take_back(&self, os: &O, address: usize, trace: Trace) -> Result<(), Misuse> {
        let mut state = self.state.lock();
        let number = self.find(address)?;
        let slot = self.slot_mut(&state, number);
        let (page, page_bytes) = self.pages_of(slot);
        if let Some((fault, damaged)) = slot.damage(page, page_bytes) {
            return Err(Misuse { block: Some((address, slot.bytes)), ..Misuse::at(fault, damaged) });
        }
        slot.close(trace);
        let bytes = slot.bytes as u64;
        state.requested -= bytes;
        state.open -= page_bytes as u64;
        // If the system refuses, the page stays open or keeps its memory: less is found, nothing breaks.
        os.close_pages(page, page_bytes);
        os.release(page, page_bytes);
        if number < self.slot_count.load(Ordering::Relaxed) {
            self.put_slot(&mut state, number);
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes asked for by the block at `address`, which lies in the arena.
    pub fn bytes_of(&self, address: usize) -> Result<usize, Misuse> {
        let number = self.find(address)?;
        Ok(self.slot(number as usize).map_or(0, |slot| slot.bytes))
    }

    pub fn stats(&self) -> GuardStats {
        let state = self.state.lock();
        let live = self.live.load(Ordering::Relaxed) as u64;
        GuardStats {
            live_blocks: live,
            bytes: state.open,
            requested: state.requested,
            samples: state.samples,
        }
    }
}

impl<O: Os> Source<O> for Guards<O> {
    fn bytes_at(&self, address: usize) -> Result<usize, Misuse> {
        self.bytes_of(address)
    }

    /// A block has as many bytes as one of a class would have, as `nallocx` promises.
    fn fits(&self, address: usize, bytes: usize, whole: &dyn Fn(usize) -> usize) -> bool {
        self.bytes_of(address).is_ok_and(|asked| bytes <= whole(asked))
    }

    fn block_at(&self, address: usize) -> Option<(usize, usize)> {
        self.bytes_of(address).ok().map(|bytes| (address, bytes))
    }

    fn free(&self, os: &O, address: usize, trace: &dyn Fn() -> Trace) -> Result<(), Misuse> {
        self.take_back(os, address, trace())
    }
}
