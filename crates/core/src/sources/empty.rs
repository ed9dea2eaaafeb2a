//! Blocks of no bytes: addresses that nobody can read or write.
//!
//! A range without memory, in which every sixteenth address can be a block, and behind it a note for each: whether
//! somebody has it, who made it, how it is aligned. Blocks are given out in turn through the whole range, so one is
//! used again only after all others. No lock, and nothing half done: each step is one exchange of one note.

use super::Source;
use crate::base::ceilings::EMPTY_BLOCKS;
use crate::base::fault::{Access, Fault, Maker, Misuse};
use crate::base::stack::Trace;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::class::MIN_ALIGN;
use crate::os::Os;
use core::sync::atomic::AtomicU16;

const RANGE_BYTES: usize = EMPTY_BLOCKS * MIN_ALIGN;
const NOTE_BYTES: usize = EMPTY_BLOCKS * size_of::<AtomicU16>();
/// If so many in a row are in use, the next is an ordinary block.
const LOOKS: usize = 64;

const LIVE: u16 = 1;
const FREED: u16 = 2;
const MAKER_SHIFT: u32 = 2;
const ASKED_SHIFT: u32 = 5;

/// The range. Zeroed it is not made yet.
pub struct Empties {
    /// 0 until the first block.
    base: AtomicUsize,
    turn: AtomicUsize,
}

/// A live block of no bytes.
#[derive(Clone, Copy)]
pub struct Empty {
    address: usize,
    note: u16,
}

impl Empty {
    pub fn maker(self) -> Maker {
        *Maker::ALL.get((self.note >> MAKER_SHIFT & 7) as usize).unwrap_or(&Maker::Malloc)
    }

    /// The alignment that was asked for, as a power of two.
    pub fn asked(self) -> u32 {
        (self.note >> ASKED_SHIFT) as u32
    }

    pub fn misuse(self, fault: Fault) -> Misuse {
        Misuse { block: Some((self.address, 0)), ..Misuse::at(fault, self.address) }
    }
}

impl Empties {
    pub const fn new() -> Self {
        Empties { base: AtomicUsize::new(0), turn: AtomicUsize::new(0) }
    }

    /// A block at a multiple of `align`, a power of two; none where the system gives no addresses, the alignment is
    /// more than a page's, or many are in use.
    pub fn make<O: Os>(&self, os: &O, align: usize) -> Option<usize> {
        if align > os.page_bytes() {
            return None;
        }
        let base = self.range(os)?;
        let step = (align / MIN_ALIGN).max(1);
        let fresh = LIVE | (align.max(1).trailing_zeros() as u16) << ASKED_SHIFT;
        (0..LOOKS).find_map(|_| {
            let turn = self.turn.fetch_add(step, Ordering::Relaxed);
            // A step is a power of two.
            let index = (turn.wrapping_add(step - 1) & !(step - 1)) % EMPTY_BLOCKS;
            let note = note(base, index)?;
            let before = note.load(Ordering::Relaxed);
            let is_free = before & LIVE == 0;
            let taken =
                is_free && note.compare_exchange(before, fresh, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            taken.then_some(base + index * MIN_ALIGN)
        })
    }

    fn range<O: Os>(&self, os: &O) -> Option<usize> {
        let known = self.base.load(Ordering::Acquire);
        if known != 0 {
            return Some(known);
        }
        let fresh = os.reserve_apart(RANGE_BYTES + NOTE_BYTES)?;
        if !os.commit(fresh + RANGE_BYTES, NOTE_BYTES) {
            os.unmap(fresh, RANGE_BYTES + NOTE_BYTES);
            return None;
        }
        // Release pairs with the Acquire above: a thread that sees the range can use its notes.
        match self.base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh),
            Err(other) => {
                os.unmap(fresh, RANGE_BYTES + NOTE_BYTES);
                Some(other)
            }
        }
    }

    /// Start and length of the notes, 0 while there are none.
    pub fn notes(&self) -> (usize, usize) {
        match self.base.load(Ordering::Acquire) {
            0 => (0, 0),
            base => (base + RANGE_BYTES, NOTE_BYTES),
        }
    }

    #[cfg(any(test, feature = "fake-os"))]
    pub fn each_reservation(&self, mut take: impl FnMut(usize, usize)) {
        take(self.base.load(Ordering::Acquire), RANGE_BYTES + NOTE_BYTES);
    }

    /// Whether an address lies in the range. Reads nothing there.
    #[inline]
    pub fn owns(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire);
        base != 0 && address.wrapping_sub(base) < RANGE_BYTES
    }

    /// The live block at `address`, which lies in the range.
    pub fn inspect(&self, address: usize) -> Result<Empty, Misuse> {
        let note = self.note_of(address).map_or(0, |note| note.load(Ordering::Acquire));
        let fault = match note & (LIVE | FREED) {
            _ if !address.is_multiple_of(MIN_ALIGN) => Fault::InteriorPointer,
            LIVE => return Ok(Empty { address, note }),
            FREED => Fault::DoubleFree,
            _ => Fault::FreeMemory,
        };
        Err(Misuse::at(fault, address))
    }

    /// Notes who made a live block.
    pub fn set_maker(&self, block: Empty, maker: Maker) {
        if let Some(note) = self.note_of(block.address) {
            let others = block.note & !(7 << MAKER_SHIFT);
            note.store(others | (maker as u16) << MAKER_SHIFT, Ordering::Release);
        }
    }

    /// Takes a block back. Of several that try, one succeeds.
    pub fn take_back(&self, block: Empty) -> Result<(), Misuse> {
        let note = self.note_of(block.address);
        let taken = note.is_some_and(|note| {
            note.compare_exchange(block.note, FREED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if taken { Ok(()) } else { Err(block.misuse(Fault::DoubleFree)) }
    }

    /// The meaning of an access to `address`, which lies in the range.
    pub fn meaning_of(&self, address: usize, access: Access) -> Misuse {
        let (start, is_live) = self.around(address);
        let fault = match (access, is_live) {
            (Access::Execute, _) => Fault::Jump,
            (_, true) => Fault::PastEnd(access),
            (_, false) => Fault::UseAfterFree,
        };
        Misuse { block: is_live.then_some((start, 0)), ..Misuse::at(fault, address) }
    }

    /// The block that an access to `address`, which lies in the range, was meant for.
    fn around(&self, address: usize) -> (usize, bool) {
        let start = address & !(MIN_ALIGN - 1);
        (start, self.inspect(start).is_ok())
    }

    fn note_of(&self, address: usize) -> Option<&AtomicU16> {
        let base = self.base.load(Ordering::Acquire);
        note(base, address.wrapping_sub(base) / MIN_ALIGN)
    }
}

impl<O: Os> Source<O> for Empties {
    fn bytes_at(&self, address: usize) -> Result<usize, Misuse> {
        self.inspect(address).map(|_| 0).map_err(Misuse::of_use)
    }

    fn free(&self, _: &O, address: usize, _: &dyn Fn() -> Trace) -> Result<(), Misuse> {
        self.inspect(address).and_then(|block| self.take_back(block))
    }
}

fn note<'a>(base: usize, index: usize) -> Option<&'a AtomicU16> {
    let place = base + RANGE_BYTES + index * size_of::<AtomicU16>();
    // SAFETY: the notes of a range are mapped before anybody knows its base, and stay as long as the heap.
    (base != 0 && index < EMPTY_BLOCKS).then(|| unsafe { &*core::ptr::with_exposed_provenance(place) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::fake::{Fake, Request};

    #[test]
    fn an_empty_block_is_nobody_elses_and_comes_back_after_all_others() {
        let (os, empties) = (Fake::default(), Empties::new());
        let first = empties.make(&os, 1).unwrap();
        assert!(empties.owns(first) && empties.take_back(empties.inspect(first).unwrap()).is_ok());
        assert_eq!(empties.inspect(first).err().map(|misuse| misuse.fault), Some(Fault::DoubleFree));
        let mut seen = std::collections::HashSet::from([first]);
        for _ in 1..EMPTY_BLOCKS {
            let block = empties.make(&os, 1).unwrap();
            assert!(block.is_multiple_of(MIN_ALIGN) && seen.insert(block));
        }
        assert_eq!(empties.make(&os, 1), Some(first));
        assert_eq!(empties.make(&os, 1), None, "all are in use");
        assert_eq!(empties.inspect(first + 1).err().map(|misuse| misuse.fault), Some(Fault::InteriorPointer));
    }

    #[test]
    fn an_empty_block_knows_its_alignment_and_maker() {
        let (os, empties) = (Fake::default(), Empties::new());
        empties.make(&os, 1);
        for shift in 0..12 {
            let block = empties.make(&os, 1 << shift).unwrap();
            assert!(block.is_multiple_of(1 << shift));
            let empty = empties.inspect(block).unwrap();
            assert_eq!((empty.asked(), empty.maker()), (shift, Maker::Malloc));
            empties.set_maker(empty, Maker::AlignedNewArray);
            let empty = empties.inspect(block).unwrap();
            assert_eq!((empty.asked(), empty.maker()), (shift, Maker::AlignedNewArray));
        }
        assert_eq!(empties.make(&os, 1 << 13), None);
    }

    #[test]
    fn without_addresses_there_are_none() {
        for request in [Request::Reserve, Request::Commit] {
            let (os, empties) = (Fake::default(), Empties::new());
            os.refuse_after(request, 0);
            assert!(empties.make(&os, 1).is_none() && !empties.owns(0x1000));
            os.grant(request);
            assert!(empties.make(&os, 1).is_some());
        }
    }
}
