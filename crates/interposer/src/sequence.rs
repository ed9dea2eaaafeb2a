//! An event into the ring of this CPU by a restartable sequence: no locked instruction, and never half a slot.
//!
//! The slot is filled first; the store of the ring's head is the commit. A thread that is interrupted before that - by another
//! thread on this CPU, a migration, a signal - begins anew (`rseq(2)`), so nobody else takes the place meanwhile. The time is
//! read inside, so a ring is in the order of its times. Cause and effect can be told across rings: a free was committed
//! before the allocator got the block, the time of the next malloc there is read behind it.
//!
//! Only in threads that glibc registered (2.35 and later), and with the time-stamp counter: no function can be called inside.

pub enum Outcome {
    Done,
    /// The ring of this number has no room.
    Full(u32),
    NoSequence,
}

#[cfg(target_arch = "x86_64")]
pub use x86_64::put;

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn put(_: &crate::layout::Header, _: u64, _: u64, _: u32) -> Outcome {
    Outcome::NoSequence
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::Outcome;
    use crate::layout::{self, COUNTER, Header, Kind, Ring, Slot};
    use core::arch::asm;
    use core::mem::{offset_of, size_of};
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// In the kernel's `struct rseq`.
    const CPU_ID: usize = 4;
    const DESCRIPTOR: usize = 8;
    /// The signature that glibc registers with: it stands before an abort address.
    const SIGNATURE: u32 = 0x5305_3053;

    const UNKNOWN: usize = 1;
    const NONE: usize = 0;
    /// The place of the thread's area, counted from the thread pointer.
    static AREA: AtomicUsize = AtomicUsize::new(UNKNOWN);

    #[cold]
    fn find() -> usize {
        let (offset, size): (*const usize, *const u32);
        // SAFETY: reads two entries of the offset table; null where the C library has no such variables.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {offset}, [rip + __rseq_offset@GOTPCREL]",
                "mov {size}, [rip + __rseq_size@GOTPCREL]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nomem, nostack, preserves_flags)
            );
        }
        // SAFETY: the C library's own, constant once the program runs.
        let area = unsafe {
            match offset.is_null() || size.is_null() || size.read() == 0 {
                true => NONE,
                false => offset.read(),
            }
        };
        AREA.store(area, Relaxed);
        area
    }

    #[inline(always)]
    pub fn put(header: &'static Header, what: u64, size: u64, thread: u32) -> Outcome {
        let mut area = AREA.load(Relaxed);
        if area == UNKNOWN {
            area = find();
        }
        if area == NONE || header.clock != COUNTER {
            return Outcome::NoSequence;
        }
        // A malloc's time has to wait for the loads that took the block; that of an end may be read early.
        match what >> 56 == Kind::Free as u64 {
            true => put_at::<false>(header, area, what, size, thread),
            false => put_at::<true>(header, area, what, size, thread),
        }
    }

    /// `WAITS`: the time is that of when all before it was done.
    #[inline(always)]
    fn put_at<const WAITS: bool>(
        header: &'static Header,
        area: usize,
        what: u64,
        size: u64,
        thread: u32,
    ) -> Outcome {
        let base = (&raw const *header).cast::<u8>();
        let slots = header.slots as u64;
        let (mut place, cpu): (u64, u64);
        // SAFETY: the rings and slots are the tool's, as many as the header says, and the last ring is left alone. `area` is
        // this thread's area; of it only the descriptor is written, as the kernel's interface asks. If the sequence is
        // interrupted nothing but a slot above the head was written, which is nobody's.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "660: .long 0, 0",
                ".quad 661f, 663f - 661f, 664f",
                ".popsection",
                ".pushsection .text.vcm_interposer_abort, \"ax\"",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long {signature}",
                "664: jmp 665f",
                ".popsection",
                "665: lea {place}, [rip + 660b]",
                "mov fs:[{area} + {descriptor}], {place}",
                // From here on.
                "661: mov {cpu:e}, fs:[{area} + {cpu_id}]",
                "mov {place}, -1",
                "cmp {cpu:e}, [{header} + {cpus}]",
                // Not registered: negative.
                "jae 666f",
                "mov {ring}, {cpu}",
                "shl {ring}, {ring_shift}",
                "lea {ring}, [{header} + {ring} + {rings}]",
                "mov {place}, [{ring} + {head}]",
                "mov {slot}, {place}",
                "sub {slot}, [{ring} + {tail}]",
                "cmp {slot}, {slots}",
                "jae 667f",
                "mov {slot}, {cpu}",
                "imul {slot}, {slots}",
                "lea rcx, [{slots} - 1]",
                "and rcx, {place}",
                "add {slot}, rcx",
                "shl {slot}, {slot_shift}",
                "add {slot}, {first}",
                ".if {waits}",
                "rdtscp",
                ".else",
                "rdtsc",
                ".endif",
                "shl rdx, 32",
                "or rax, rdx",
                "mov [{slot} + {at_stamp}], rax",
                "mov [{slot} + {at_what}], {what}",
                "mov [{slot} + {at_size}], {size}",
                "inc {place}",
                "mov [{slot} + {at_thread}], {thread:e}",
                "mov [{slot} + {at_mark}], {place:e}",
                // The commit.
                "mov [{ring} + {head}], {place}",
                "663: xor {place:e}, {place:e}",
                "jmp 666f",
                "667: mov {place}, 1",
                "666:",
                place = out(reg) place,
                cpu = out(reg) cpu,
                ring = out(reg) _,
                slot = out(reg) _,
                out("rcx") _,
                out("rax") _,
                out("rdx") _,
                area = in(reg) area,
                header = in(reg) base,
                slots = in(reg) slots,
                rings = const layout::PAGE,
                cpus = const offset_of!(Header, cpus),
                first = in(reg) base.add(layout::slots_at(header.rings)),
                what = in(reg) what,
                size = in(reg) size,
                thread = in(reg) thread,
                signature = const SIGNATURE,
                descriptor = const DESCRIPTOR,
                cpu_id = const CPU_ID,
                ring_shift = const size_of::<Ring>().ilog2(),
                slot_shift = const size_of::<Slot>().ilog2(),
                head = const offset_of!(Ring, head),
                tail = const offset_of!(Ring, tail),
                at_stamp = const offset_of!(Slot, stamp),
                at_what = const offset_of!(Slot, what),
                at_size = const offset_of!(Slot, size),
                at_thread = const offset_of!(Slot, thread),
                at_mark = const offset_of!(Slot, mark),
                waits = const WAITS as u8,
                options(nostack)
            );
        }
        match place {
            0 => Outcome::Done,
            1 => Outcome::Full(cpu as u32),
            _ => Outcome::NoSequence,
        }
    }

    const _: () = assert!(size_of::<Ring>().is_power_of_two() && size_of::<Slot>().is_power_of_two());
    /// The sequence writes the mark so.
    const _: () = assert!(layout::mark(41) == 42);
}
