//! The sequences of x86-64.

#![expect(named_asm_labels, reason = "each is a number: see `label`")]

use super::{Front, label};
use super::{NOT_EXCHANGED, Turn};
use crate::base::sync::Ordering;
use crate::cache::slab::{OWNED, Slab, Word};
use crate::class::SizeClass;
use core::arch::asm;

/// Announces the sequence from `first` to `end`, and the way back to `again` when it is aborted. The signature before it
/// is disguised as an instruction (ud1), so that disassemblers keep their step.
macro_rules! descriptor {
    () => {
        ".pushsection __rseq_cs, \"aw\"
        .balign 32
        {descriptor}: .long 0, 0
        .quad {first}f, {end}f - {first}f, {abort}f
        .popsection
        .pushsection __rseq_abort, \"ax\"
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
        {abort}: jmp {again}f
        .popsection"
    };
}

/// From here a sequence is begun or begun again; leaves for the given label where there is none.
macro_rules! begin {
    ($no_sequence:literal) => {
        concat!(
            "{again}:
            mov {slab:e}, fs:[{area} + 4]
            cmp {slab:e}, {cpus:e}
            jae ",
            $no_sequence,
            "
            lea {slab}, [rip + {descriptor}b]
            mov fs:[{area} + 8], {slab}
            {first}:
            mov {slab:e}, fs:[{index}]
            mov {slab}, [{slabs} + {slab} * 8]"
        )
    };
}

/// Away from the path that is usually taken: the result is "nothing".
macro_rules! nothing {
    ($result:literal) => {
        concat!(
            ".pushsection __rseq_abort, \"ax\"
            {nothing}: xor ",
            $result,
            ", ",
            $result,
            "
            jmp {done}f
            .popsection"
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
            asm!("mov {cpu:e}, fs:[{area} + 4]", "mov {index:e}, fs:[{at}]",
                cpu = out(reg) cpu, index = out(reg) index,
                area = in(reg) self.area.load(Ordering::Relaxed), at = in(reg) self.index.load(Ordering::Relaxed),
                options(nostack, preserves_flags, readonly));
        }
        if cpu < cpus && index < cpus { Some(index as usize) } else { None }
    }

    /// The word at this offset from this thread's pointer.
    pub(super) fn thread_word(offset: usize) -> usize {
        let word;
        // SAFETY: the caller's offset is that of a word which lies there in every thread.
        unsafe {
            asm!("mov {word}, fs:[{at}]", word = out(reg) word, at = in(reg) offset, options(nostack, preserves_flags, readonly));
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
                    nothing!("{block:e}"),
                    begin!("{nothing}b"),
                    // Store-to-load forwarding is fastest between accesses of one register each, so no index
                    // here.
                    "lea {word}, [{slab} + {class} * 8]",
                    "mov {top:e}, [{word}]",
                    "mov {block}, [{slab} + {top}]",
                    "test {block}, {block}",
                    "jz {done}f",
                    "sub {top:e}, 8",
                    "mov [{word}], {top:e}",
                    "{end}:",
                    "{done}:",
                ],
                top = out(reg) _,
                word = out(reg) _,
                block = out(reg) block,
                done = const label::DONE,
                nothing = const label::NOTHING,
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
                    nothing!("{block:e}"),
                    begin!("{nothing}b"),
                    "lea {word}, [{slab} + {class} * 8]",
                    "mov {top:e}, [{word}]",
                    "mov {block}, [{slab} + {top}]",
                    "test {block}, {block}",
                    "jz {done}f",
                    "mov {next}, [{slab} + {top} - 8]",
                    "sub {top:e}, 8",
                    "mov [{word}], {top:e}",
                    "{end}:",
                    // Not of address 0, whose translation no processor keeps.
                    "test {next}, {next}",
                    "cmovz {next}, {block}",
                    "prefetcht0 [{next}]",
                    "prefetcht0 [{next} + 64]",
                    "{done}:",
                ],
                top = out(reg) _,
                word = out(reg) _,
                next = out(reg) _,
                block = out(reg) block,
                done = const label::DONE,
                nothing = const label::NOTHING,
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
                    begin!("{refused}"),
                    "lea {word}, [{slab} + {class} * 8]",
                    "mov {top:e}, [{word}]",
                    "cmp {top:e}, [{word} + 4]",
                    "jae {refused}",
                    // The block freed last, or the one before it, once more: the slow path looks closer.
                    "cmp [{slab} + {top}], {block}",
                    "je {refused}",
                    "cmp [{slab} + {top} - 8], {block}",
                    "je {refused}",
                    "mov [{slab} + {top} + 8], {block}",
                    "add {top:e}, 8",
                    "mov [{word}], {top:e}",
                    "{end}:",
                ],
                top = out(reg) _,
                word = out(reg) _,
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
                    nothing!("{block:e}"),
                    begin!("{nothing}b"),
                    "cmp [{slab} + {owned}], {owner}",
                    "jne {nothing}b",
                    "lea {word}, [{slab} + {class} * 8]",
                    "mov {top:e}, [{word}]",
                    "mov {block}, [{slab} + {top}]",
                    "test {block}, {block}",
                    "jz {done}f",
                    "sub {top:e}, 8",
                    "mov [{word}], {top:e}",
                    "{end}:",
                    "{done}:",
                ],
                top = out(reg) _,
                word = out(reg) _,
                block = out(reg) block,
                owner = in(reg) owner,
                owned = const OWNED,
                done = const label::DONE,
                nothing = const label::NOTHING,
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
                    begin!("{refused}"),
                    "cmp [{slab} + {owned}], {owner}",
                    "jne {refused}",
                    "lea {word}, [{slab} + {class} * 8]",
                    "mov {top:e}, [{word}]",
                    "cmp {top:e}, [{word} + 4]",
                    "jae {refused}",
                    // As in `push`.
                    "cmp [{slab} + {top}], {block}",
                    "je {refused}",
                    "cmp [{slab} + {top} - 8], {block}",
                    "je {refused}",
                    "mov [{slab} + {top} + 8], {block}",
                    "add {top:e}, 8",
                    "mov [{word}], {top:e}",
                    "{end}:",
                ],
                top = out(reg) _,
                word = out(reg) _,
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
                    nothing!("{count:e}"),
                    begin!("{nothing}b"),
                    "xor {count:e}, {count:e}",
                    "mov {top:e}, [{slab} + {class} * 8]",
                    "{next}:",
                    "cmp {count}, {room}",
                    "jae {enough}f",
                    "mov {block}, [{slab} + {top}]",
                    "test {block}, {block}",
                    "jz {enough}f",
                    "mov [{out} + {count} * 8], {block}",
                    "inc {count}",
                    "sub {top:e}, 8",
                    "jmp {next}b",
                    "{enough}:",
                    "mov [{slab} + {class} * 8], {top:e}",
                    "{end}:",
                    "{done}:",
                ],
                top = out(reg) _,
                block = out(reg) _,
                count = out(reg) count,
                out = in(reg) out.as_mut_ptr(),
                room = in(reg) out.len(),
                done = const label::DONE,
                next = const label::NEXT,
                enough = const label::ENOUGH,
                nothing = const label::NOTHING,
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
                    nothing!("{count:e}"),
                    begin!("{nothing}b"),
                    "xor {count:e}, {count:e}",
                    "mov {top:e}, [{slab} + {class} * 8]",
                    "{next}:",
                    "cmp {count}, {offered}",
                    "jae {enough}f",
                    "cmp {top:e}, [{slab} + {class} * 8 + 4]",
                    "jae {enough}f",
                    "mov {block}, [{blocks} + {count} * 8]",
                    "mov [{slab} + {top} + 8], {block}",
                    "inc {count}",
                    "add {top:e}, 8",
                    "jmp {next}b",
                    "{enough}:",
                    "mov [{slab} + {class} * 8], {top:e}",
                    "{end}:",
                    "{done}:",
                ],
                top = out(reg) _,
                block = out(reg) _,
                count = out(reg) count,
                blocks = in(reg) blocks.as_ptr(),
                offered = in(reg) blocks.len(),
                done = const label::DONE,
                next = const label::NEXT,
                enough = const label::ENOUGH,
                nothing = const label::NOTHING,
            );
        }
        count
    }

    /// Sets the word of a class if this is the slab in use and its word is still `expected`.
    pub fn replace(&self, slab: Slab, class: SizeClass, expected: Word, new: Word) -> bool {
        let mut replaced: u32;
        // SAFETY: as in `Front::pop`.
        unsafe {
            sequence!(
                self,
                class,
                [
                    nothing!("{replaced:e}"),
                    begin!("{nothing}b"),
                    "xor {replaced:e}, {replaced:e}",
                    "cmp {slab}, {meant}",
                    "jne {done}f",
                    "cmp [{slab} + {class} * 8], {expected}",
                    "jne {done}f",
                    "mov {replaced:e}, 1",
                    "mov [{slab} + {class} * 8], {new}",
                    "{end}:",
                    "{done}:",
                ],
                replaced = out(reg) replaced,
                meant = in(reg) slab.0,
                expected = in(reg) expected.0,
                new = in(reg) new.0,
                done = const label::DONE,
                nothing = const label::NOTHING,
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
                    ".pushsection __rseq_abort, \"ax\"
                    {nothing}: mov {old:e}, {not_exchanged}
                    jmp {done}f
                    .popsection",
                    begin!("{nothing}b"),
                    "cmp {slab}, {shard}",
                    "jne {nothing}b",
                    "cmp [{slab} + {class} * 8], {turn}",
                    "jne {nothing}b",
                    "mov {old}, [{place}]",
                    "mov [{slab} + {class} * 8], {next_turn}",
                    "mov [{place}], {block}",
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
                nothing = const label::NOTHING,
            );
        }
        old
    }
}
