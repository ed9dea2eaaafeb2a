//! The sequences of aarch64.
//!
//! Unlike x86-64, this machine may show two stores of one CPU to others in either order. Threads that share a virtual
//! CPU do not see that: the kernel orders them where it gives the virtual CPU from one to the other. Nor does who empties
//! a slab: `membarrier` lies between. The memory of a child process does, which is copied page by page while other
//! threads go on: there a word must not count an entry that is not there yet, and so a commit behind an entry is a
//! store-release. A pop's commit depends on the entry that was read before it.
//!
//! A conditional branch reaches 1 MiB. So all of them stay within the function, and only the abort handler lies
//! elsewhere: it comes back by a branch that reaches 128 MiB, for which a linker may write a detour through x16 and x17.

#![expect(named_asm_labels, reason = "each is a number: see `label`")]

use super::{Front, label};
use super::{NOT_EXCHANGED, Turn};
use crate::base::sync::Ordering;
use crate::cache::slab::{OWNED, Slab, Word};
use crate::class::SizeClass;
use core::arch::asm;

/// Announces the sequence from `first` to `end`, and the way back to `again` when it is aborted. The signature before it
/// is a breakpoint instruction that nobody reaches.
macro_rules! descriptor {
    () => {
        ".pushsection __rseq_cs, \"aw\"
        .balign 32
        {descriptor}: .long 0, 0
        .quad {first}f, {end}f - {first}f, {abort}f
        .popsection
        .pushsection __rseq_abort, \"ax\"
        .balign 4
        .inst 0xd428bc00
        {abort}: b {again}f
        .popsection"
    };
}

/// From here a sequence is begun or begun again; leaves for the given label where there is none, after the given line.
macro_rules! begin {
    ($no_sequence:literal, $first_of_all:literal) => {
        concat!(
            "{again}: ",
            $first_of_all,
            "
            mrs {thread}, tpidr_el0
            add {top}, {thread}, {area}
            ldr {slab:w}, [{top}, #4]
            cmp {slab:w}, {cpus:w}
            b.hs ",
            $no_sequence,
            "
            adrp {slab}, {descriptor}b
            add {slab}, {slab}, :lo12:{descriptor}b
            str {slab}, [{top}, #8]
            {first}:
            ldr {slab:w}, [{thread}, {index}]
            ldr {slab}, [{slabs}, {slab}, lsl #3]
            add {word}, {slab}, {class}, lsl #3"
        )
    };
}

/// A sequence on the slab of a front: its lines, then the operands that are its own.
macro_rules! sequence {
    ($front:expr, $class:expr, [$($line:expr),+ $(,)?], $($operands:tt)+) => {
        sequence!($front, $class.index(), $front.slabs.load(Ordering::Relaxed), [$($line),+], $($operands)+)
    };
    // On the table of another kind of slab, at the word with this number.
    ($front:expr, $word:expr, $slabs:expr, [$($line:expr),+ $(,)?], $($operands:tt)+) => {
        asm!(
            descriptor!(),
            $($line,)+
            slab = out(reg) _,
            thread = out(reg) _,
            top = out(reg) _,
            word = out(reg) _,
            $($operands)+
            class = in(reg) $word,
            // First: Acquire pairs with the Release in `start`, so the others are there if the number is.
            cpus = in(reg) $front.cpus.load(Ordering::Acquire),
            area = in(reg) $front.area.load(Ordering::Relaxed),
            index = in(reg) $front.index.load(Ordering::Relaxed),
            slabs = in(reg) $slabs,
            again = const label::AGAIN,
            descriptor = const label::DESCRIPTOR,
            first = const label::FIRST,
            end = const label::END,
            abort = const label::ABORT,
            out("x16") _,
            out("x17") _,
            options(nostack),
        )
    };
}

impl Front {
    /// The virtual CPU that this thread runs on now, if it is registered. It may change at once.
    pub fn current(&self) -> Option<usize> {
        let cpus = self.cpus.load(Ordering::Acquire);
        let (cpu, index): (u32, u32);
        if cpus == 0 {
            return None;
        }
        // SAFETY: reads the thread's area, which exists at this offset in every thread.
        unsafe {
            asm!("mrs {thread}, tpidr_el0", "ldr {cpu:w}, [{thread}, {at_cpu}]", "ldr {index:w}, [{thread}, {at}]",
                thread = out(reg) _, cpu = out(reg) cpu, index = lateout(reg) index,
                at_cpu = in(reg) self.area.load(Ordering::Relaxed) + 4, at = in(reg) self.index.load(Ordering::Relaxed),
                options(nostack, preserves_flags, readonly));
        }
        if cpu < cpus && index < cpus { Some(index as usize) } else { None }
    }

    /// The word at this offset from this thread's pointer.
    pub(super) fn thread_word(offset: usize) -> usize {
        let word;
        // SAFETY: the caller's offset is that of a word which lies there in every thread.
        unsafe {
            asm!("mrs {thread}, tpidr_el0", "ldr {word}, [{thread}, {at}]", thread = out(reg) _, word = lateout(reg) word,
                at = in(reg) offset, options(nostack, preserves_flags, readonly));
        }
        word
    }

    #[inline(always)]
    pub fn pop(&self, class: SizeClass) -> usize {
        let mut block: usize;
        // SAFETY: the sequence reads and writes words and entries of the current slab as described at `Slab`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {block}, xzr"),
                    "ldr {top:w}, [{word}]",
                    "ldr {block}, [{slab}, {top}]",
                    "cbz {block}, {done}f",
                    "sub {top:w}, {top:w}, #8",
                    "str {top:w}, [{word}]",
                    "{end}:",
                    "{done}:",
                ],
                block = out(reg) block,
                done = const label::DONE,
            );
        }
        block
    }

    /// `pop`, which has the first lines of the block that will be next brought into the cache.
    #[inline(always)]
    pub fn pop_ahead(&self, class: SizeClass) -> usize {
        let mut block: usize;
        // SAFETY: as in `pop`. Below the last block is 0, and a prefetch faults nowhere.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {block}, xzr"),
                    "ldr {top:w}, [{word}]",
                    "ldr {block}, [{slab}, {top}]",
                    "cbz {block}, {done}f",
                    "sub {top:w}, {top:w}, #8",
                    "ldr {next}, [{slab}, {top}]",
                    "str {top:w}, [{word}]",
                    "{end}:",
                    // Not of address 0, whose translation no processor keeps.
                    "cmp {next}, #0",
                    "csel {next}, {block}, {next}, eq",
                    "prfm pldl1keep, [{next}]",
                    "prfm pldl1keep, [{next}, #64]",
                    "{done}:",
                ],
                next = out(reg) _,
                block = out(reg) block,
                done = const label::DONE,
            );
        }
        block
    }

    #[inline(always)]
    pub fn push(&self, class: SizeClass, block: usize) -> bool {
        // SAFETY: as in `pop`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{refused}", ""),
                    "ldr {top:w}, [{word}]",
                    "ldr {other:w}, [{word}, #4]",
                    "cmp {top:w}, {other:w}",
                    "b.hs {refused}",
                    "add {slab}, {slab}, {top}",
                    // The block freed last, or the one before it, once more: the slow path looks closer.
                    "ldr {other}, [{slab}]",
                    "cmp {other}, {block}",
                    "b.eq {refused}",
                    "ldur {other}, [{slab}, #-8]",
                    "cmp {other}, {block}",
                    "b.eq {refused}",
                    "str {block}, [{slab}, #8]",
                    "add {top:w}, {top:w}, #8",
                    "stlr {top:w}, [{word}]",
                    "{end}:",
                ],
                other = out(reg) _,
                block = in(reg) block,
                refused = label { return false },
            );
        }
        true
    }

    /// `pop` on a slab of this owner; 0 also where another one is in use.
    #[inline(always)]
    pub fn pop_of(&self, class: SizeClass, owner: u64) -> usize {
        let mut block: usize;
        // SAFETY: as in `pop`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {block}, xzr"),
                    "ldr {top}, [{slab}, #{owned}]",
                    "cmp {top}, {owner}",
                    "b.ne {done}f",
                    "ldr {top:w}, [{word}]",
                    "ldr {block}, [{slab}, {top}]",
                    "cbz {block}, {done}f",
                    "sub {top:w}, {top:w}, #8",
                    "str {top:w}, [{word}]",
                    "{end}:",
                    "{done}:",
                ],
                block = out(reg) block,
                owner = in(reg) owner,
                owned = const OWNED,
                done = const label::DONE,
            );
        }
        block
    }

    /// `push` on a slab of this owner; false also where another one is in use.
    #[inline(always)]
    pub fn push_of(&self, class: SizeClass, block: usize, owner: u64) -> bool {
        // SAFETY: as in `pop`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{refused}", ""),
                    "ldr {top}, [{slab}, #{owned}]",
                    "cmp {top}, {owner}",
                    "b.ne {refused}",
                    "ldr {top:w}, [{word}]",
                    "ldr {other:w}, [{word}, #4]",
                    "cmp {top:w}, {other:w}",
                    "b.hs {refused}",
                    "add {slab}, {slab}, {top}",
                    // The block freed last, or the one before it, once more: the slow path looks closer.
                    "ldr {other}, [{slab}]",
                    "cmp {other}, {block}",
                    "b.eq {refused}",
                    "ldur {other}, [{slab}, #-8]",
                    "cmp {other}, {block}",
                    "b.eq {refused}",
                    "str {block}, [{slab}, #8]",
                    "add {top:w}, {top:w}, #8",
                    "stlr {top:w}, [{word}]",
                    "{end}:",
                ],
                other = out(reg) _,
                block = in(reg) block,
                owner = in(reg) owner,
                owned = const OWNED,
                refused = label { return false },
            );
        }
        true
    }

    /// Fills `out` from the block put last on; returns how many.
    pub fn pop_batch(&self, class: SizeClass, out: &mut [usize]) -> usize {
        let mut count: usize;
        // SAFETY: as in `Front::pop`; writes at most `out.len()` entries of `out`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {count}, xzr"),
                    "ldr {top:w}, [{word}]",
                    "{next}:",
                    "cmp {count}, {room}",
                    "b.hs {enough}f",
                    "ldr {block}, [{slab}, {top}]",
                    "cbz {block}, {enough}f",
                    "str {block}, [{out}, {count}, lsl #3]",
                    "add {count}, {count}, #1",
                    "sub {top:w}, {top:w}, #8",
                    "b {next}b",
                    "{enough}:",
                    "str {top:w}, [{word}]",
                    "{end}:",
                    "{done}:",
                ],
                block = out(reg) _,
                count = out(reg) count,
                out = in(reg) out.as_mut_ptr(),
                room = in(reg) out.len(),
                done = const label::DONE,
                next = const label::NEXT,
                enough = const label::ENOUGH,
            );
        }
        count
    }

    /// Puts blocks in order as far as there is place; returns how many.
    pub fn push_batch(&self, class: SizeClass, blocks: &[usize]) -> usize {
        let mut count: usize;
        // SAFETY: as in `Front::pop`; reads `blocks.len()` entries of `blocks`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {count}, xzr"),
                    "ldr {top:w}, [{word}]",
                    "{next}:",
                    "cmp {count}, {offered}",
                    "b.hs {enough}f",
                    "ldr {block:w}, [{word}, #4]",
                    "cmp {top:w}, {block:w}",
                    "b.hs {enough}f",
                    "ldr {block}, [{blocks}, {count}, lsl #3]",
                    "add {top:w}, {top:w}, #8",
                    "str {block}, [{slab}, {top}]",
                    "add {count}, {count}, #1",
                    "b {next}b",
                    "{enough}:",
                    "stlr {top:w}, [{word}]",
                    "{end}:",
                    "{done}:",
                ],
                block = out(reg) _,
                count = out(reg) count,
                blocks = in(reg) blocks.as_ptr(),
                offered = in(reg) blocks.len(),
                done = const label::DONE,
                next = const label::NEXT,
                enough = const label::ENOUGH,
            );
        }
        count
    }

    /// Sets the word of a class if this is the slab in use and its word is still `expected`.
    pub fn replace(&self, slab: Slab, class: SizeClass, expected: Word, new: Word) -> bool {
        let mut replaced: u64;
        // SAFETY: as in `Front::pop`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    begin!("{done}f", "mov {replaced}, xzr"),
                    "cmp {slab}, {meant}",
                    "b.ne {done}f",
                    "ldr {top}, [{word}]",
                    "cmp {top}, {expected}",
                    "b.ne {done}f",
                    "mov {replaced}, #1",
                    "stlr {new}, [{word}]",
                    "{end}:",
                    "{done}:",
                ],
                replaced = out(reg) replaced,
                meant = in(reg) slab.0,
                expected = in(reg) expected.0,
                new = in(reg) new.0,
                done = const label::DONE,
            );
        }
        replaced != 0
    }

    /// Puts a block into a place and takes out what was there, where this is the shard in use and its turn still that one.
    /// Else `NOT_EXCHANGED`, and at most the turn has changed.
    ///
    /// # Safety
    /// `shards` is a table with an entry for every virtual CPU, `shard` the address of one that its virtual CPU alone
    /// changes, with the turn and the place, which is an address.
    #[inline(always)]
    pub unsafe fn exchange(
        &self,
        shards: usize,
        shard: usize,
        turn: Turn,
        place: usize,
        block: usize,
    ) -> usize {
        let mut old: usize;
        // SAFETY: by the caller's promise. An abort after the turn was counted leaves a place out of this round.
        unsafe {
            sequence!(
                self,
                turn.at,
                shards,
                [
                    begin!("{done}f", "mov {old}, #{not_exchanged}"),
                    "cmp {slab}, {shard}",
                    "b.ne {done}f",
                    "ldr {top}, [{word}]",
                    "cmp {top}, {turn}",
                    "b.ne {done}f",
                    "ldr {old}, [{place}]",
                    "str {next_turn}, [{word}]",
                    "stlr {block}, [{place}]",
                    "{end}:",
                    "{done}:",
                ],
                old = out(reg) old,
                shard = in(reg) shard,
                turn = in(reg) turn.now,
                next_turn = in(reg) turn.next,
                place = in(reg) place,
                block = in(reg) block,
                not_exchanged = const NOT_EXCHANGED,
                done = const label::DONE,
            );
        }
        old
    }
}
