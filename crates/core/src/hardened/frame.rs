//! The frame around a block: sixteen bytes before it that say what was asked for, and a canary behind its last byte.
//!
//! ```text
//!   | what, canary |  the bytes that were asked for  | tail canary |
//!   -16           user                          user + bytes
//! ```
//!
//! If an alignment would otherwise take a block of twice the memory, what and canary stand at the end of that memory
//! instead, and the block begins where it does:
//!
//! ```text
//!   |  the bytes that were asked for  | tail canary | zeros | what, canary |
//!  user                          user + bytes                             end
//! ```
//!
//! The first canary depends on a secret, the address and the word before it, so a frame cannot be moved or
//! changed. No byte of a canary is ASCII, 0 or 255: bytes that programs write by accident are never mistaken for it.

use super::fences::Fence;
use crate::base::fault::Maker;
use crate::base::sync::{AtomicU64, Ordering};
use crate::class::MIN_ALIGN;
use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

/// Bytes before a block.
pub const FRONT: usize = 16;
/// Bytes of tail canary where there is room for more.
pub const TAIL_MOST: usize = 32;
/// Bytes of tail canary behind every small block.
pub const TAIL_LEAST: usize = 8;
/// Sizes have so many bits in a frame; the heap's range is shorter.
pub const MOST_BYTES: usize = (1 << SIZE_BITS) - 1;

const WORD: usize = size_of::<u64>();
const SIZE_BITS: u32 = 44;
const MAKER_SHIFT: u32 = SIZE_BITS;
const LAID_SHIFT: u32 = MAKER_SHIFT + 3;
const ASKED_SHIFT: u32 = LAID_SHIFT + 6;
const FENCED_SHIFT: u32 = ASKED_SHIFT + 6;
const FURTHER_SHIFT: u32 = FENCED_SHIFT + 2;
/// The kinds of guards in two bits; a block with its frame behind it has none.
const MAPPED: u64 = 1;
const BEHIND: u64 = 2;
const MARKED: u64 = 3;
/// The most that `further` may be.
pub const MOST_FURTHER: usize = (1 << (u64::BITS - FURTHER_SHIFT)) - 1;

/// The request for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    pub bytes: usize,
    pub maker: Maker,
    /// The alignment that the block was laid out for, as a power of two.
    pub laid: u32,
    /// The alignment that its owner knows of; a block that `realloc` left in place forgot its own.
    pub asked: u32,
    /// Its guard pages.
    pub fenced: Fence,
    /// The size word and the canary stand at the end of its memory.
    pub behind: bool,
    /// How far inside its run a block with guards lies, in parts as long as runs are aligned to.
    pub further: usize,
}

impl Frame {
    /// The frame of a small block with no alignment named.
    #[inline(always)]
    pub fn usual(bytes: usize, maker: Maker) -> Frame {
        Frame { bytes, maker, laid: 0, asked: 0, fenced: Fence::None, behind: false, further: 0 }
    }

    /// The frame of a small or large request of malloc's family, whose block lies as it was asked for.
    pub fn asked_for(align: usize, bytes: usize) -> Frame {
        let asked = align.max(1).trailing_zeros();
        Frame {
            bytes,
            maker: Maker::Malloc,
            laid: asked,
            asked,
            fenced: Fence::None,
            behind: false,
            further: 0,
        }
    }

    fn word(self) -> u64 {
        self.bytes as u64
            | (self.maker as u64) << MAKER_SHIFT
            | (self.laid as u64) << LAID_SHIFT
            | (self.asked as u64) << ASKED_SHIFT
            | self.guards() << FENCED_SHIFT
            | (self.further as u64) << FURTHER_SHIFT
    }

    fn guards(self) -> u64 {
        match self.fenced {
            Fence::None if self.behind => BEHIND,
            Fence::None => 0,
            Fence::Mapped => MAPPED,
            Fence::Marked => MARKED,
        }
    }

    fn of_word(word: u64) -> Option<Frame> {
        Some(Frame {
            bytes: (word & MOST_BYTES as u64) as usize,
            maker: *Maker::ALL.get((word >> MAKER_SHIFT & 7) as usize)?,
            laid: (word >> LAID_SHIFT & 63) as u32,
            asked: (word >> ASKED_SHIFT & 63) as u32,
            fenced: match word >> FENCED_SHIFT & 3 {
                MAPPED => Fence::Mapped,
                MARKED => Fence::Marked,
                _ => Fence::None,
            },
            behind: word >> FENCED_SHIFT & 3 == BEHIND,
            further: (word >> FURTHER_SHIFT) as usize,
        })
    }

    /// True where an operator new of libstdc++'s that was asked for `bytes` at a multiple of `align` may have
    /// asked malloc's family for this: for one byte at least; if an alignment is given, for that of a pointer
    /// at least, and for a multiple of it (libsupc++/new_op.cc, new_opa.cc).
    pub fn serves_foreign_new(self, bytes: usize, align: usize) -> bool {
        let aligns = [align.max(1), align.max(size_of::<usize>())];
        self.maker == Maker::Malloc
            && aligns.contains(&(1 << self.asked))
            && bytes.max(1).checked_next_multiple_of(1 << self.asked) == Some(self.bytes)
    }

    /// The distance from the start of its memory to a small block.
    pub fn front(self) -> usize {
        if self.behind { 0 } else { FRONT.max(1 << self.laid) }
    }

    /// The place of what and canary of the block at `user`, which has `room` behind its bytes.
    pub fn place(self, user: usize, room: usize) -> usize {
        if self.behind { user + self.bytes + room } else { user - FRONT }
    }
}

/// Whether a free that says `align` means a block that was asked for at a multiple of 2 to the `asked`. 0 says no more than
/// that it was one which every block has: Rust's layouts name small alignments, and its functions do not pass them on.
pub fn is_said(asked: u32, align: usize) -> bool {
    match align {
        0 => asked <= MIN_ALIGN.trailing_zeros(),
        named => asked == named.trailing_zeros(),
    }
}

/// Every byte 128 to 254 and even.
fn shaped(word: u64) -> u64 {
    word & 0x7e7e_7e7e_7e7e_7e7e | 0x8080_8080_8080_8080
}

/// The canaries before and behind a block: two halves of one product of 128 bits, folded in two ways. Each depends on
/// every bit of secret, address and word.
#[inline(always)]
fn canaries(secret: u64, user: usize, word: u64) -> (u64, u64) {
    const APART: u64 = 0x9E37_79B9_7F4A_7C15;
    let product = (secret ^ user as u64) as u128 * (secret.rotate_left(32) ^ APART ^ word) as u128;
    let (low, high) = (product as u64, (product >> 64) as u64);
    (shaped(low ^ high), shaped(low.wrapping_add(high.rotate_left(32))))
}

/// Writes a frame around the block at `user`, behind whose bytes `room` more belong to it, without what and canary. Returns
/// the length of the tail canary.
///
/// # Safety
/// The memory is the caller's alone, with that for what and canary.
#[inline]
pub unsafe fn write(secret: u64, user: usize, frame: Frame, room: usize) -> usize {
    let tail = room.min(TAIL_MOST);
    let (before, behind) = canaries(secret, user, frame.word());
    let end = user + frame.bytes;
    // SAFETY: by the caller's promise; blocks are aligned to 16.
    unsafe {
        let front = at_mut::<u64>(frame.place(user, room));
        front.write(frame.word());
        front.add(1).write(before);
    }
    // SAFETY: by the caller's promise.
    let put = |place: usize, word: u64| unsafe { at_mut::<u64>(end + place).write_unaligned(word.to_le()) };
    if tail >= WORD {
        tail_words(behind, tail).into_iter().for_each(|(place, word)| put(place, word));
    } else {
        let bytes = behind.to_le_bytes();
        // SAFETY: as above.
        (0..tail).for_each(|place| unsafe { at_mut::<u8>(end + place).write(byte_of(&bytes, place)) });
    }
    tail
}

/// Writes the frame of a usual block behind whose bytes 8 to 23 more belong to it.
///
/// # Safety
/// As `write`.
#[inline(always)]
pub unsafe fn write_usual(secret: u64, user: usize, bytes: usize, maker: Maker, room: usize) {
    debug_assert!((TAIL_LEAST..3 * WORD).contains(&room));
    let word = bytes as u64 | (maker as u64) << MAKER_SHIFT;
    let (before, behind) = canaries(secret, user, word);
    let end = user + bytes;
    // SAFETY: by the caller's promise; blocks are aligned to 16.
    unsafe {
        let front = at_mut::<u64>(user - FRONT);
        front.write(word);
        front.add(1).write(before);
    }
    // The last two of four are one.
    let [first, second, _, last] = tail_words(behind, room);
    for (place, word) in [first, second, last] {
        // SAFETY: as above.
        unsafe { at_mut::<u64>(end + place).write_unaligned(word.to_le()) };
    }
}

/// The words of a tail of eight bytes or more: four, of which those that reach its end overlap. Without a branch: how
/// long a tail is differs from block to block.
#[inline(always)]
fn tail_words(canary: u64, tail: usize) -> [(usize, u64); TAIL_MOST / WORD] {
    let last = tail - WORD;
    let at_end = (last, canary.rotate_right((tail % WORD * 8) as u32));
    let word = |place: usize| if place < last { (place, canary) } else { at_end };
    [(0, canary), word(WORD), word(2 * WORD), at_end]
}

fn byte_of(canary: &[u8; 8], place: usize) -> u8 {
    canary.get(place % 8).copied().unwrap_or(0)
}

/// Reads the frame of a live block, what and canary of which stand at `place`, or says which byte of them changed.
///
/// # Safety
/// A frame was written for `user` there.
#[inline]
pub unsafe fn read(secret: u64, user: usize, place: usize) -> Result<Frame, usize> {
    // SAFETY: by the caller's promise.
    let (word, canary) = unsafe {
        let front = at::<u64>(place);
        (front.read(), front.add(1).read())
    };
    if canary == canaries(secret, user, word).0
        && let Some(frame) = Frame::of_word(word)
    {
        return Ok(frame);
    }
    // The byte nearest to the block that no canary has; the whole is wrong even where each byte might be
    // right.
    let bytes = canary.to_le_bytes();
    let changed = bytes.iter().rposition(|byte| shaped(*byte as u64) as u8 != *byte).unwrap_or(7);
    Err(place + WORD + changed)
}

/// The byte nearest to the block at `user` of the eight before it that neither a canary nor free memory has there: none
/// where all are as the memory of whatever block lies before it ends.
///
/// # Safety
/// The bytes can be read. Others may be writing frames there.
pub unsafe fn changed_before(user: usize) -> Option<usize> {
    // SAFETY: by the caller's promise; a block that has no frame before it is aligned to 32.
    let before = unsafe { &*at::<AtomicU64>(user - WORD) }.load(Ordering::Relaxed).to_le_bytes();
    let changed = before.iter().rposition(|byte| *byte != 0 && shaped(*byte as u64) as u8 != *byte)?;
    Some(user - WORD + changed)
}

/// The usual block: `maker` made it, without guards and with no alignment named, and all of its frame is as it was written.
/// None for any other.
///
/// # Safety
/// A frame was written for `user`, whose memory begins `FRONT` bytes before it and is `block_bytes` long.
#[inline(always)]
pub unsafe fn plain(secret: u64, user: usize, maker: Maker, block_bytes: usize) -> Option<Plain> {
    // SAFETY: by the caller's promise.
    let (word, canary) = unsafe {
        let front = at::<u64>(user - FRONT);
        (front.read(), front.add(1).read())
    };
    let (before, behind) = canaries(secret, user, word);
    if canary != before || word >> SIZE_BITS != maker as u64 {
        return None;
    }
    let bytes = word as usize & MOST_BYTES;
    // The frame is ours, so the size in it is one that was written with at least the least tail.
    let tail = (block_bytes - FRONT - bytes).min(TAIL_MOST);
    // SAFETY: by the caller's promise.
    let found = |place: usize| u64::from_le(unsafe { at::<u64>(user + bytes + place).read_unaligned() });
    let changed = tail_words(behind, tail).iter().fold(0, |all, (place, word)| all | found(*place) ^ word);
    (changed == 0).then_some(Plain { bytes, written: FRONT + bytes + tail })
}

/// The findings of `plain`.
#[derive(Clone, Copy)]
pub struct Plain {
    pub bytes: usize,
    /// The bytes from the start of the memory on that the program or the frame may have written.
    pub written: usize,
}

/// The first byte of the tail canary that changed.
///
/// # Safety
/// The frame was written for `user` with this `room`.
#[inline]
pub unsafe fn changed_tail(secret: u64, user: usize, frame: Frame, room: usize) -> Option<usize> {
    let canary = canaries(secret, user, frame.word()).1;
    let (end, tail) = (user + frame.bytes, room.min(TAIL_MOST));
    // SAFETY: by the caller's promise.
    let found = |place: usize| u64::from_le(unsafe { at::<u64>(end + place).read_unaligned() });
    if tail >= WORD
        && tail_words(canary, tail).iter().fold(0, |all, (place, word)| all | found(*place) ^ word) == 0
    {
        return None;
    }
    let bytes = canary.to_le_bytes();
    // SAFETY: as above.
    let changed = |place: &usize| unsafe { at::<u8>(end + place).read() } != byte_of(&bytes, *place);
    (0..tail).find(changed).map(|place| end + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: u64 = 0x1234_5678_9abc_def0;
    const ROOM: usize = 100;

    /// Memory with a framed block of 77 bytes inside.
    struct Framed {
        memory: Vec<u128>,
        frame: Frame,
    }

    impl Framed {
        fn new() -> Self {
            let frame = Frame {
                bytes: 77,
                maker: Maker::NewArray,
                laid: 12,
                asked: 0,
                fenced: Fence::Marked,
                behind: false,
                further: 0,
            };
            let framed = Framed { memory: vec![0; 8], frame };
            // SAFETY: the memory is 128 bytes long, as many as the front, the block and its tail.
            let tail = unsafe { write(SECRET, framed.user(), frame, ROOM - frame.bytes) };
            assert_eq!(tail, ROOM - frame.bytes);
            framed
        }

        fn user(&self) -> usize {
            self.memory.as_ptr().expose_provenance() + FRONT
        }

        fn read_with(&self, secret: u64) -> Result<Frame, usize> {
            // SAFETY: as in `new`.
            unsafe { read(secret, self.user(), self.user() - FRONT) }
        }

        fn changed_tail(&self) -> Option<usize> {
            // SAFETY: as in `new`.
            unsafe { changed_tail(SECRET, self.user(), self.frame, ROOM - self.frame.bytes) }
        }

        /// Writes the byte so far from the block's start; returns what was there.
        fn replace(&mut self, place: isize, value: u8) -> u8 {
            let address = self.user().wrapping_add_signed(place);
            // SAFETY: the tests name bytes of the frame, which `new` has laid into the memory.
            unsafe { at_mut::<u8>(address).replace(value) }
        }
    }

    #[test]
    fn a_frame_says_what_was_asked_for() {
        let framed = Framed::new();
        assert_eq!(framed.read_with(SECRET), Ok(framed.frame));
        assert_eq!(framed.changed_tail(), None);
        assert!(framed.read_with(SECRET ^ 1).is_err(), "another secret, another canary");
    }

    #[test]
    fn every_changed_byte_around_a_block_is_found() {
        for value in [0u8, b'A', 255] {
            let mut framed = Framed::new();
            for place in -16..0 {
                let before = framed.replace(place, value);
                assert!(before == value || framed.read_with(SECRET).is_err(), "{place} bytes from the start");
                framed.replace(place, before);
            }
            for place in 77..100 {
                let before = framed.replace(place, value);
                assert_eq!(framed.changed_tail(), Some(framed.user() + place as usize));
                framed.replace(place, before);
            }
        }
    }

    #[test]
    fn a_usual_block_is_known_until_any_byte_of_its_frame_changes() {
        for bytes in 1..80 {
            let frame = Frame {
                bytes,
                maker: Maker::New,
                laid: 0,
                asked: 0,
                fenced: Fence::None,
                behind: false,
                further: 0,
            };
            let mut framed = Framed { memory: vec![0; 7], frame };
            let room = 112 - FRONT - bytes;
            // SAFETY: the memory is 112 bytes long.
            let tail = unsafe { write(SECRET, framed.user(), frame, room) };
            // SAFETY: as above.
            let known = |framed: &Framed, maker| unsafe { plain(SECRET, framed.user(), maker, 112) };
            let plain = known(&framed, Maker::New).unwrap();
            assert_eq!((plain.bytes, plain.written), (bytes, FRONT + bytes + tail));
            assert!(known(&framed, Maker::Malloc).is_none());
            for place in (-16..0).chain(bytes as isize..(bytes + tail) as isize) {
                let before = framed.replace(place, 0);
                assert!(before == 0 || known(&framed, Maker::New).is_none(), "{bytes} bytes, at {place}");
                framed.replace(place, before);
            }
        }
    }
}
