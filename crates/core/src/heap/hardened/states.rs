//! One byte for every sixteen of the heap: whether a block starts there, and whether somebody has it.
//!
//! Outside the blocks, so no write to a block changes it. Grows with the part of the heap that was handed
//! out; without a lock, because a page that is committed twice is committed.

use crate::base::round_up;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::os::Os;
use core::sync::atomic::AtomicU8;

const GRANULE: usize = 16;
const STEP_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nobody was ever given a block that starts here.
    Never = 0,
    Live = 1,
    Freed = 2,
}

/// The table. Zeroed it knows of no block.
pub struct States {
    base: AtomicUsize,
    committed: AtomicUsize,
}

impl States {
    pub const fn new() -> Self {
        States { base: AtomicUsize::new(0), committed: AtomicUsize::new(0) }
    }

    /// The byte of the block at `offset` of a range of `range` bytes, made if it is not there yet.
    pub fn made<O: Os>(&self, os: &O, range: usize, offset: usize) -> Option<&AtomicU8> {
        let place = offset / GRANULE;
        if place >= self.committed.load(Ordering::Acquire) {
            self.grow(os, range / GRANULE, place)?;
        }
        self.known(offset)
    }

    /// The same, if it is there.
    pub fn known(&self, offset: usize) -> Option<&AtomicU8> {
        let place = offset / GRANULE;
        if place >= self.committed.load(Ordering::Acquire) {
            return None;
        }
        let address = self.base.load(Ordering::Relaxed) + place;
        // SAFETY: the table is committed up to there, and stays as long as the heap.
        Some(unsafe { &*core::ptr::with_exposed_provenance(address) })
    }

    /// Notes that a block is handed out; false where it is with somebody already.
    pub fn hand_out(state: &AtomicU8) -> bool {
        state.swap(State::Live as u8, Ordering::AcqRel) != State::Live as u8
    }

    /// Notes that the block at `offset` is free, or says in which state it is instead of live. Of several
    /// that try, one succeeds.
    pub fn take_back(&self, offset: usize) -> Result<(), State> {
        let Some(state) = self.known(offset) else { return Err(State::Never) };
        let (live, freed) = (State::Live as u8, State::Freed as u8);
        match state.compare_exchange(live, freed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(if other == freed { State::Freed } else { State::Never }),
        }
    }

    pub fn of(&self, offset: usize) -> State {
        match self.known(offset).map_or(0, |state| state.load(Ordering::Acquire)) {
            1 => State::Live,
            2 => State::Freed,
            _ => State::Never,
        }
    }

    #[cold]
    fn grow<O: Os>(&self, os: &O, most: usize, place: usize) -> Option<()> {
        let most = round_up(most, STEP_BYTES);
        let base = self.reserved(os, most)?;
        let committed = self.committed.load(Ordering::Relaxed);
        // An eighth more than is needed: fewer calls for large heaps.
        let target = round_up(place + 1 + place / 8, STEP_BYTES).min(most);
        if target > committed && !os.commit(base + committed, target - committed) {
            return None;
        }
        // Release pairs with the Acquire in `known`: who sees the length sees the table.
        self.committed.fetch_max(target, Ordering::Release);
        Some(())
    }

    fn reserved<O: Os>(&self, os: &O, bytes: usize) -> Option<usize> {
        let known = self.base.load(Ordering::Acquire);
        if known != 0 {
            return Some(known);
        }
        let fresh = os.reserve(bytes)?;
        match self.base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh),
            Err(other) => {
                os.unmap(fresh, bytes);
                Some(other)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Request};

    #[test]
    fn a_block_is_taken_back_once() {
        let (os, states) = (Fake::default(), States::new());
        assert_eq!(states.take_back(64), Err(State::Never));
        assert!(States::hand_out(states.made(&os, 1 << 30, 64).unwrap()));
        assert!(!States::hand_out(states.made(&os, 1 << 30, 64).unwrap()));
        assert_eq!((states.of(64), states.of(80)), (State::Live, State::Never));
        assert_eq!((states.take_back(64), states.take_back(64)), (Ok(()), Err(State::Freed)));
    }

    #[test]
    fn the_table_grows_to_its_end_and_a_refusal_is_an_answer() {
        let (os, states) = (Fake::default(), States::new());
        os.refuse_after(Request::Reserve, 0);
        assert!(states.made(&os, 1 << 30, 0).is_none());
        os.grant(Request::Reserve);
        assert!(states.made(&os, 1 << 30, (1 << 30) - 16).is_some());
        assert!(states.made(&os, 1 << 30, 1 << 29).is_some());
    }
}
