//! Whether a block starts at an address, and whether somebody has it: a byte for every 32 of the heap, a mark of the pages.
//!
//! Outside the blocks, so no write to a block changes it. No block's memory is shorter than 32 bytes, so no two blocks start in one
//! such part; in which half of it the one does is in the byte too.

use super::Hardened;
use crate::base::fault::{Fault, Misuse};
use crate::base::sync::{AtomicU8, Ordering};
use crate::class::MIN_ALIGN;
use crate::os::Os;
use crate::pages::BYTES_PER_MARK;

const _: () = assert!(BYTES_PER_MARK == 2 * MIN_ALIGN);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nobody was ever given a block that starts here.
    Never = 0,
    Live = 1,
    Freed = 2,
    /// Live, with its frame at the end of its memory.
    LiveBehind = 3,
}

impl State {
    pub fn is_live(self) -> bool {
        self as u8 & LIVE != 0
    }

    fn of_number(number: u8) -> State {
        match number {
            1 => State::Live,
            2 => State::Freed,
            3 => State::LiveBehind,
            _ => State::Never,
        }
    }
}

const STATE: u8 = 3;
/// The bit that both kinds of live have, and no other state.
const LIVE: u8 = 1;

/// The mark for a block that starts at one address.
#[derive(Clone, Copy)]
pub struct Mark<'a> {
    byte: &'a AtomicU8,
    /// The half that it starts in, where the byte has it.
    half: u8,
}

impl Mark<'_> {
    #[inline(always)]
    pub fn state(self) -> State {
        let seen = self.byte.load(Ordering::Acquire);
        if seen & !STATE == self.half { State::of_number(seen & STATE) } else { State::Never }
    }

    /// Notes that a block is handed out, as the one or the other kind of live; false where one that starts there, or in the other
    /// half, is with somebody already.
    ///
    /// A load and a store: the block is out of everybody's reach, so nobody changes its mark between them.
    #[inline(always)]
    pub fn hand_out(self, live: State) -> bool {
        let before = self.byte.load(Ordering::Acquire);
        self.byte.store(live as u8 | self.half, Ordering::Release);
        before & LIVE == 0
    }

    /// Notes that a block is free which was seen `live`, or says in which state it is instead. Of several that
    /// try, one succeeds.
    #[inline(always)]
    pub fn take_back(self, live: State) -> Result<(), State> {
        let [live, freed] = [live, State::Freed].map(|state| state as u8 | self.half);
        match self.byte.compare_exchange(live, freed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(if other == freed { State::Freed } else { State::Never }),
        }
    }
}

/// The misuse where `Mark::hand_out` says false.
#[cold]
pub fn handed_out_twice(user: usize) -> Misuse {
    Misuse::at(Fault::HandedOutTwice, user)
}

impl<O: Os> Hardened<O> {
    /// None outside the heap's range.
    #[inline(always)]
    pub(super) fn mark_of(&self, address: usize) -> Option<Mark<'_>> {
        let half = (address / MIN_ALIGN % 2) as u8 * (STATE + 1);
        self.heap.pages.mark_of(address).map(|byte| Mark { byte, half })
    }

    pub(super) fn state_of(&self, address: usize) -> State {
        self.mark_of(address).map_or(State::Never, Mark::state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taken_back_once() {
        for (live, half) in
            [(State::Live, 0), (State::LiveBehind, 0), (State::Live, 4), (State::LiveBehind, 4)]
        {
            let byte = AtomicU8::new(0);
            let [mark, other] = [half, 4 - half].map(|half| Mark { byte: &byte, half });
            assert_eq!((mark.state(), mark.take_back(live)), (State::Never, Err(State::Never)));
            assert!(mark.hand_out(live) && !mark.hand_out(live));
            assert_eq!((mark.state(), other.state()), (live, State::Never));
            assert_eq!(other.take_back(live), Err(State::Never), "no block starts in the other half");
            assert_eq!((mark.take_back(live), mark.take_back(live)), (Ok(()), Err(State::Freed)));
            assert!(other.hand_out(live) && !mark.hand_out(live), "two blocks do not overlap");
        }
    }
}
