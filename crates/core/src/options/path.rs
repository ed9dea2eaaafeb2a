//! The text of an option that is a path: values are words, and a path is longer.
//!
//! Any thread may set and read at any time, a signal handler too: nobody waits. Each text takes the next of a few
//! places, and its number is the option's value; a reader makes sure that the place was not taken again.

use crate::base::ceilings::OPTION_PATHS;
use crate::base::place::{Places, Within};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

/// With the zero at its end.
pub const PATH_BYTES: usize = 256;

pub(super) struct Paths {
    /// Texts that were begun.
    begun: AtomicU64,
    /// Somebody writes there.
    is_taken: [AtomicBool; OPTION_PATHS],
    texts: [[AtomicU8; PATH_BYTES]; OPTION_PATHS],
}

impl Paths {
    pub(super) const fn new() -> Self {
        Paths {
            begun: AtomicU64::new(0),
            is_taken: [const { AtomicBool::new(false) }; OPTION_PATHS],
            texts: [const { [const { AtomicU8::new(0) }; PATH_BYTES] }; OPTION_PATHS],
        }
    }

    fn place(&self, number: u64) -> Option<&[AtomicU8; PATH_BYTES]> {
        self.texts.get(number as usize % OPTION_PATHS)
    }

    /// Keeps a text that is shorter than a place; its number, from 1. 0, which is no path, where others write in all places.
    pub(super) fn keep(&self, text: &[u8]) -> u64 {
        // A place in which a slower thread, or the one that a signal interrupted, still writes is left to it.
        for _ in 0..16 * OPTION_PATHS {
            let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            let taken = self.is_taken.get(number as usize % OPTION_PATHS);
            if let (Some(place), Some(taken)) = (self.place(number), taken)
                && !taken.swap(true, Ordering::Acquire)
            {
                // Pairs with the fence in `copy`: a thread that reads a byte of this text finds it begun.
                fence(Ordering::Release);
                let bytes = text.iter().copied().chain(core::iter::repeat(0));
                place.iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Ordering::Relaxed));
                taken.store(false, Ordering::Release);
                return number;
            }
        }
        0
    }

    /// Copies a text; false where its place was taken since.
    pub(super) fn copy(&self, number: u64, room: &mut [u8; PATH_BYTES]) -> bool {
        let Some(place) = self.place(number) else { return false };
        room.iter_mut().zip(place).for_each(|(to, byte)| *to = byte.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        self.begun.load(Ordering::Relaxed) < number + OPTION_PATHS as u64
    }

    /// Adds the places of the texts, for readers outside the process: an option's text is at `value % OPTION_PATHS`.
    pub(super) const fn places(list: Places, name: &str, at: usize) -> Places {
        let first = at + offset_of!(Self, texts);
        list.put("path.", name, Within::Heap, 1, first, (PATH_BYTES, OPTION_PATHS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_until_its_place_is_taken_again() {
        let (paths, mut room) = (Paths::new(), [1; PATH_BYTES]);
        let first = paths.keep(b"/a/long/one");
        assert!(paths.copy(first, &mut room) && room.starts_with(b"/a/long/one\0"));
        let numbers: Vec<u64> = (0..OPTION_PATHS).map(|_| paths.keep(b"/b")).collect();
        assert!(!paths.copy(first, &mut room), "its place is another's");
        assert!(paths.copy(numbers[OPTION_PATHS - 1], &mut room) && room.starts_with(b"/b\0\0\0"));
    }

    #[test]
    fn nobody_reads_parts_of_two_texts() {
        let (paths, kept) = (Paths::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for byte in [b'a', b'b'] {
                let (paths, kept) = (&paths, &kept);
                let keep = move || kept.store(paths.keep(&[byte; PATH_BYTES - 1]), Ordering::Release);
                scope.spawn(move || (0..20_000).for_each(|_| keep()));
            }
            let mut room = [0; PATH_BYTES];
            for _ in 0..20_000 {
                let last = kept.load(Ordering::Acquire);
                if last != 0 && paths.copy(last, &mut room) {
                    assert!(room[..PATH_BYTES - 1].iter().all(|byte| *byte == room[0]));
                }
            }
        });
    }
}
