//! One byte for every sixteen of the heap, a mark of the pages: whether a block starts there, and whether somebody has
//! it.
//!
//! Outside the blocks, so no write to a block changes it.

use crate::base::sync::{AtomicU8, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nobody was ever given a block that starts here.
    Never = 0,
    Live = 1,
    Freed = 2,
}

impl State {
    /// Notes that a block is handed out; false where it is with somebody already.
    ///
    /// A load and a store: the block is out of everybody's reach, so nobody changes its mark between them.
    #[inline]
    pub fn hand_out(mark: &AtomicU8) -> bool {
        let is_free = mark.load(Ordering::Acquire) != State::Live as u8;
        mark.store(State::Live as u8, Ordering::Release);
        is_free
    }

    /// Notes that a block is free, or says in which state it is instead of live. Of several that try, one
    /// succeeds.
    pub fn take_back(mark: Option<&AtomicU8>) -> Result<(), State> {
        let Some(mark) = mark else { return Err(State::Never) };
        let (live, freed) = (State::Live as u8, State::Freed as u8);
        match mark.compare_exchange(live, freed, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(if other == freed { State::Freed } else { State::Never }),
        }
    }

    pub fn of(mark: Option<&AtomicU8>) -> State {
        match mark.map_or(0, |mark| mark.load(Ordering::Acquire)) {
            1 => State::Live,
            2 => State::Freed,
            _ => State::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taken_back_once() {
        let [mark, other] = [const { AtomicU8::new(0) }; 2];
        assert_eq!(State::take_back(Some(&mark)), Err(State::Never));
        assert!(State::hand_out(&mark));
        assert!(!State::hand_out(&mark));
        assert_eq!(
            [State::of(Some(&mark)), State::of(Some(&other)), State::of(None)],
            [State::Live, State::Never, State::Never]
        );
        assert_eq!(
            (State::take_back(Some(&mark)), State::take_back(Some(&mark))),
            (Ok(()), Err(State::Freed))
        );
        assert_eq!(State::take_back(None), Err(State::Never));
    }
}
