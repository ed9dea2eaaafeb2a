//! The stack of calls by frame pointers, and what an interrupted thread was doing.
//!
//! Most distributions compile without frame pointers: the register then holds anything. So nothing is
//! believed: the walk goes upwards only, not far, and a page is read only after the system said that it can
//! be.

use core::ffi::c_void;

/// A thread's stack is walked no further than this.
const MOST_BYTES: usize = 1 << 20;
/// No code lies below this address.
const LEAST_CODE: usize = 1 << 16;
const PAGE: usize = 4096;
/// The bits of an address of code. Above them, aarch64 signs return addresses in programs that ask for it.
#[cfg(target_arch = "aarch64")]
const CODE_BITS: usize = (1 << 48) - 1;
#[cfg(not(target_arch = "aarch64"))]
const CODE_BITS: usize = usize::MAX;

/// The return addresses of this thread's calls, innermost first; returns how many.
pub(super) fn by_frame_pointers(frames: &mut [usize]) -> usize {
    let (frame, stack): (usize, usize);
    // SAFETY: reads two registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("mov {}, rbp", "mov {}, rsp", out(reg) frame, out(reg) stack, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: reads two registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("mov {}, x29", "mov {}, sp", out(reg) frame, out(reg) stack, options(nomem, nostack, preserves_flags));
    }
    walk(frame, stack, frames)
}

/// Follows frames from `frame` upwards; the stack pointer says where the stack is.
pub(super) fn walk(frame: usize, stack: usize, frames: &mut [usize]) -> usize {
    let (mut frame, mut lowest, mut readable) = (frame, stack, 0);
    let mut depth = 0;
    for place in frames.iter_mut() {
        let far = frame.wrapping_sub(stack) > MOST_BYTES;
        if frame < lowest || far || !frame.is_multiple_of(size_of::<usize>()) {
            break;
        }
        for page in [frame, frame + size_of::<usize>()].map(|at| at & !(PAGE - 1)) {
            if page != readable && !is_readable(page) {
                return depth;
            }
            readable = page;
        }
        let saved = core::ptr::with_exposed_provenance::<usize>(frame);
        // SAFETY: both words lie on readable pages; whatever they hold is only a number.
        let (next, code) = unsafe { (saved.read_volatile(), saved.wrapping_add(1).read_volatile()) };
        let code = code & CODE_BITS;
        if code < LEAST_CODE {
            break;
        }
        *place = code;
        depth += 1;
        lowest = frame + 1;
        frame = next;
    }
    depth
}

/// Asks the kernel to compare a word there with a number and to wait if it is the same, but no time. It refuses at
/// once where it is not, or cannot be read; and filters of system calls, which must let a futex pass, let this.
pub(super) fn is_readable(address: usize) -> bool {
    if super::registration::is_strict() {
        return false;
    }
    const UNLIKELY: u32 = 0x9e37_79b9;
    let word = core::ptr::with_exposed_provenance::<u32>(address & !3);
    let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let before = super::thread::error_number();
    // SAFETY: the kernel reads the word, if it can, and changes nothing.
    let asked = unsafe { libc::syscall(libc::SYS_futex, word, flags, UNLIKELY, &raw const time) };
    let error = super::thread::error_number();
    super::thread::set_error_number(before);
    asked == 0 || matches!(error, libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)
}

/// The state of a thread when a signal came.
#[derive(Clone, Copy)]
pub struct Interrupted {
    pub instruction: usize,
    pub frame: usize,
    pub stack: usize,
    /// Whether the refused access was a write, where the machine tells.
    pub is_write: Option<bool>,
}

impl Interrupted {
    /// # Safety
    /// `context` is the third argument of a signal handler.
    pub unsafe fn from_context(context: *const c_void) -> Interrupted {
        #[cfg(target_arch = "x86_64")]
        {
            const WRITE: usize = 2;
            let context = context.cast::<libc::ucontext_t>();
            // SAFETY: by the caller's promise.
            let registers = unsafe { &(*context).uc_mcontext.gregs };
            let register = |number: i32| registers.get(number as usize).map_or(0, |value| *value as usize);
            Interrupted {
                instruction: register(libc::REG_RIP),
                frame: register(libc::REG_RBP),
                stack: register(libc::REG_RSP),
                is_write: Some(register(libc::REG_ERR) & WRITE != 0),
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            const FRAME: usize = 29;
            // SAFETY: by the caller's promise.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
            Interrupted {
                instruction: registers.pc as usize,
                frame: registers.regs.get(FRAME).map_or(0, |value| *value as usize),
                stack: registers.sp as usize,
                is_write: is_write(registers),
            }
        }
    }

    /// The interrupted instruction, and the calls that led there by frame pointers.
    pub fn frames(&self, frames: &mut [usize]) -> usize {
        match frames.split_first_mut() {
            Some((first, rest)) if self.instruction != 0 => {
                *first = self.instruction;
                1 + walk(self.frame, self.stack, rest)
            }
            _ => 0,
        }
    }
}

/// Whether the access was a write, by the exception syndrome, which the kernel adds after the registers as one of
/// several records, each with a kind and a length; kind 0 ends them.
#[cfg(target_arch = "aarch64")]
fn is_write(registers: &libc::mcontext_t) -> Option<bool> {
    const RECORDS_BYTES: usize = 4096;
    const SYNDROME: u32 = 0x4553_5201;
    const WRITE: u64 = 1 << 6;
    let end = size_of::<libc::mcontext_t>();
    let (start, mut at) = ((&raw const *registers).cast::<u8>(), end - RECORDS_BYTES);
    while at + 16 <= end {
        // SAFETY: inside the structure, whose length and parts are multiples of 16.
        let [kind, length] = unsafe { start.add(at).cast::<[u32; 2]>().read() };
        if kind == SYNDROME {
            // SAFETY: a record of this kind has 16 bytes, of which these are the last eight.
            return Some(unsafe { start.add(at + 8).cast::<u64>().read() } & WRITE != 0);
        }
        if kind == 0 || length < 16 || !length.is_multiple_of(16) {
            break;
        }
        at += length as usize;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of frames in an array, as compilers lay it out.
    fn chain(words: &mut [usize; 64], count: usize) -> usize {
        let base = words.as_ptr().expose_provenance();
        for frame in 0..count {
            words[frame * 4] = base + (frame + 1) * 32;
            words[frame * 4 + 1] = 0x40_0000 + frame;
        }
        base
    }

    #[test]
    fn a_chain_of_frames_is_followed_to_its_end() {
        let mut words = [0; 64];
        let base = chain(&mut words, 10);
        let mut frames = [0; 32];
        assert_eq!(walk(base, base, &mut frames), 10);
        assert_eq!(frames[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|frame| 0x40_0000 + frame));
        assert_eq!(walk(base, base, &mut frames[..3]), 3);
    }

    #[test]
    fn nonsense_in_the_register_or_in_the_chain_ends_the_walk() {
        let mut frames = [0; 32];
        let mut words = [0; 64];
        let base = chain(&mut words, 10);
        for nonsense in [0, 1, 7, base - 8, base + 3, base + (2 << 20), usize::MAX, usize::MAX - 7] {
            assert_eq!(walk(nonsense, base, &mut frames), 0, "{nonsense:x}");
        }
        words[4] = base;
        assert_eq!(walk(base, base, &mut frames), 2, "a chain that goes down");
        words[4] = base + (512 << 10);
        core::hint::black_box(&mut words);
        assert!(
            walk(base, base, &mut frames) >= 2,
            "a chain that leaves is followed as far as it can be read"
        );
    }

    #[test]
    fn pages_that_cannot_be_read_are_found_out_and_errno_stays() {
        super::super::thread::set_error_number(33);
        let word = 0usize;
        assert!(is_readable((&raw const word).expose_provenance() & !(PAGE - 1)));
        assert!(!is_readable(0) && !is_readable(PAGE) && !is_readable(1 << 60));
        assert_eq!(super::super::thread::error_number(), 33);
    }

    /// In a thread of its own, for which alone the filter is.
    #[test]
    fn a_page_that_the_system_may_not_be_asked_about_is_not_read() {
        let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        // The number of the call is the first word of what a filter sees.
        let filter = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_futex as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let refused = std::thread::spawn(move || {
            let mut filter = filter;
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            // SAFETY: for this thread only, which ends at once.
            let installed = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                    | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
            };
            let word = 0usize;
            // Emulated processes, of which aarch64's tests are some, cannot install filters.
            let is_emulated = cfg!(not(target_arch = "x86_64")) && installed != 0;
            is_emulated || installed == 0 && !is_readable((&raw const word).expose_provenance() & !(PAGE - 1))
        });
        assert!(refused.join().unwrap());
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn the_syndrome_behind_the_registers_says_whether_it_was_a_write() {
        // SAFETY: numbers alone.
        let mut context: libc::ucontext_t = unsafe { core::mem::zeroed() };
        let at = (&raw mut context.uc_mcontext).cast::<u8>();
        let records = size_of::<libc::mcontext_t>() - 4096;
        // SAFETY: inside the structure.
        let put = |offset: usize, words: [u32; 4]| unsafe {
            at.add(records + offset).cast::<[u32; 4]>().write(words);
        };
        // As the kernel lays them out: the vector registers (528 bytes), then the syndrome of a data abort.
        put(0, [0x4650_8001, 528, 0, 0]);
        for (syndrome, is_write) in [(0x9200_0047, true), (0x9200_0007, false)] {
            put(528, [0x4553_5201, 16, syndrome, 0]);
            // SAFETY: a context as a handler would get it.
            let interrupted = unsafe { Interrupted::from_context((&raw const context).cast()) };
            assert_eq!(interrupted.is_write, Some(is_write));
        }
        put(528, [0, 0, 0, 0]);
        // SAFETY: a context as a handler would get it.
        let interrupted = unsafe { Interrupted::from_context((&raw const context).cast()) };
        assert_eq!(interrupted.is_write, None);
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn signed_return_addresses_are_told_without_their_signature() {
        let mut words = [0; 64];
        let base = chain(&mut words, 2);
        words[1] |= 0x2a51 << 48;
        core::hint::black_box(&mut words);
        let mut frames = [0; 4];
        assert_eq!((walk(base, base, &mut frames), frames[0]), (2, 0x40_0000));
    }
}
