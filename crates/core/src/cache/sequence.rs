//! The restartable sequences of x86-64.
//!
//! A sequence works on the slab of the virtual CPU that the thread runs on and ends in one store, the commit.
//! If the kernel interrupts it before that - preemption, migration, signal - it does not go on: it jumps to
//! the abort address, and we begin again. So between the first instruction and the commit no other thread can
//! have touched the slab, and an aborted sequence has changed nothing that counts (entries above `top` do
//! not).
//!
//! What the kernel's ABI asks for (Documentation, `rseq(2)`): the address of a descriptor {start, length,
//! abort} is stored in the thread's area before the sequence starts; the abort address follows the signature
//! that glibc registered. Nothing else of the area is written. A descriptor left behind does no harm: the
//! kernel looks at it only where the interrupted instruction lies inside its range.
//!
//! Every sequence first compares the thread's `cpu_id` with the number of slabs: negative in a thread that is
//! not registered, and never below zero slabs, as before the start. Both then look like an empty and full
//! cache.

#![expect(named_asm_labels, reason = "each is a number: see `label`")]

use super::slab::{Slab, Word};
use super::slab_cache::SlabCache;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::class::{LARGEST_BYTES, SizeClass, TABLED_BYTES};
use core::arch::asm;
use core::mem::offset_of;

/// What the sequences need. Zeroed means "no sequences": every operation fails.
pub struct Front {
    /// Slabs in the table; 0 while there are no sequences.
    cpus: AtomicU32,
    /// Offsets from the thread pointer: the thread's area, and the index of its virtual CPU.
    area: AtomicUsize,
    index: AtomicUsize,
    /// The table of slab addresses.
    slabs: AtomicUsize,
    /// Requests up to this find their class in the table; 0 sends every request to the slow path.
    direct: AtomicUsize,
}

/// The labels of a sequence. Numbers, not names: one is inlined into many functions, and a name may stand once in an
/// object.
mod label {
    /// It is begun here, and again when it was aborted.
    pub const AGAIN: u32 = 660;
    /// The descriptor that tells the kernel of the next three.
    pub const DESCRIPTOR: u32 = 661;
    /// Its first instruction,
    pub const FIRST: u32 = 662;
    /// the end behind its commit,
    pub const END: u32 = 663;
    /// and where the kernel has an interrupted one go on.
    pub const ABORT: u32 = 664;
    /// Behind everything, whatever came of it.
    pub const DONE: u32 = 665;
    /// Of a batch: the next block, and what follows the last one.
    pub const NEXT: u32 = 666;
    pub const ENOUGH: u32 = 667;
    /// Out of the way: the result is "nothing", since there is no sequence.
    pub const NOTHING: u32 = 668;
}

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
        asm!(
            descriptor!(),
            $($line,)+
            slab = out(reg) _,
            $($operands)+
            class = in(reg) $class.index(),
            // First: Acquire pairs with the Release in `start`, so the others are there if the number is.
            cpus = in(reg) $front.cpus.load(Ordering::Acquire),
            area = in(reg) $front.area.load(Ordering::Relaxed),
            index = in(reg) $front.index.load(Ordering::Relaxed),
            slabs = in(reg) $front.slabs.load(Ordering::Relaxed),
            again = const label::AGAIN,
            descriptor = const label::DESCRIPTOR,
            first = const label::FIRST,
            end = const label::END,
            abort = const label::ABORT,
            options(nostack),
        )
    };
}

/// Where the words of a front lie, for the sequences in `whole`.
impl Front {
    pub const CPUS: usize = offset_of!(Front, cpus);
    pub const AREA: usize = offset_of!(Front, area);
    pub const INDEX: usize = offset_of!(Front, index);
    pub const SLABS: usize = offset_of!(Front, slabs);
    pub const DIRECT: usize = offset_of!(Front, direct);
}

impl Front {
    pub const fn new() -> Self {
        Front {
            cpus: AtomicU32::new(0),
            area: AtomicUsize::new(0),
            index: AtomicUsize::new(0),
            slabs: AtomicUsize::new(0),
            direct: AtomicUsize::new(0),
        }
    }

    /// Turns the sequences on. Every entry of the table is the address of a slab or of an empty one.
    pub fn start(&self, area: isize, index: isize, slabs: usize, cpus: usize) {
        self.area.store(area as usize, Ordering::Relaxed);
        self.index.store(index as usize, Ordering::Relaxed);
        self.slabs.store(slabs, Ordering::Relaxed);
        // Release: who sees the number of slabs sees the rest.
        self.cpus.store(cpus as u32, Ordering::Release);
        self.set_direct(true);
    }

    /// Turns the sequences off for all that begin from now on; `closed` is a table of empty slabs, for those
    /// that do not look whether they are on.
    pub fn stop(&self, closed: usize) {
        self.set_direct(false);
        self.slabs.store(closed, Ordering::Relaxed);
        self.cpus.store(0, Ordering::Release);
    }

    /// Whether requests may be served without the slow path's looking at them.
    pub fn set_direct(&self, direct: bool) {
        self.direct.store(if direct { TABLED_BYTES } else { 0 }, Ordering::Relaxed);
    }

    /// Whether requests may be served so.
    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed) != 0
    }

    /// A block for a request of `bytes`; 0 where the slow path wants to see it first.
    #[inline(always)]
    pub fn pop_for(&self, bytes: usize) -> usize {
        let direct = self.direct.load(Ordering::Relaxed);
        if bytes <= direct {
            return self.pop(SizeClass::tabled(bytes));
        }
        core::hint::cold_path();
        if direct != 0 && bytes <= LARGEST_BYTES { self.pop(SizeClass::computed(bytes)) } else { 0 }
    }

    /// The slab that a sequence of the virtual CPU with this number would work on.
    #[cfg(test)]
    pub fn shown(&self, cpu: usize) -> usize {
        let entry = core::ptr::with_exposed_provenance::<usize>(self.slabs.load(Ordering::Relaxed));
        // SAFETY: for tests, of the heap's own CPUs.
        unsafe { entry.add(cpu).read_volatile() }
    }

    pub fn is_on(&self) -> bool {
        self.cpus.load(Ordering::Acquire) != 0
    }

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
}

/// The cache of the virtual CPU that the thread runs on, by restartable sequences.
pub struct Current<'a> {
    pub front: &'a Front,
    /// The slab that the caller decided about; the thread may have moved since.
    pub slab: Slab,
}

impl SlabCache for Current<'_> {
    fn slab(&self) -> Slab {
        self.slab
    }

    fn pop(&self, class: SizeClass) -> usize {
        self.front.pop(class)
    }

    fn push(&self, class: SizeClass, block: usize) -> bool {
        self.front.push(class, block)
    }

    fn pop_batch(&self, class: SizeClass, out: &mut [usize]) -> usize {
        let mut count: usize;
        // SAFETY: as in `Front::pop`; writes at most `out.len()` entries of `out`.
        unsafe {
            sequence!(
                self.front,
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

    fn push_batch(&self, class: SizeClass, blocks: &[usize]) -> usize {
        let mut count: usize;
        // SAFETY: as in `Front::pop`; reads `blocks.len()` entries of `blocks`.
        unsafe {
            sequence!(
                self.front,
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

    fn replace(&self, class: SizeClass, expected: Word, new: Word) -> bool {
        let mut replaced: u32;
        // SAFETY: as in `Front::pop`.
        unsafe {
            sequence!(
                self.front,
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
                meant = in(reg) self.slab.0,
                expected = in(reg) expected.0,
                new = in(reg) new.0,
                done = const label::DONE,
                nothing = const label::NOTHING,
            );
        }
        replaced != 0
    }
}
