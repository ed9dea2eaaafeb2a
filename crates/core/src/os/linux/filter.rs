//! Filters of system calls that the program is about to install, and their verdicts on our own calls.
//!
//! Such a filter is a program of classic BPF that sees the number and the arguments of a call. We run it, for each
//! call that may be asked, before the kernel has it; a call that the filter does not let pass is not asked any more.

use super::stack::is_readable;

/// The words of 32 bits that a filter sees: the kernel's `struct seccomp_data`.
const DATA_WORDS: usize = 16;
/// The kernel takes no longer ones.
const MOST_INSTRUCTIONS: usize = 4096;
const SCRATCH_WORDS: usize = 16;
const ACTION: u32 = 0xffff_0000;

#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xc000_00b7;

/// A system call as a filter sees it. Addresses are zero: no filter knows them.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub number: libc::c_long,
    pub arguments: [u64; 6],
}

/// The fate of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Passes,
    /// It comes back with an error.
    Fails,
    /// Another process decides.
    IsTold,
    /// The thread or the process ends, or its handler of SIGSYS runs; so too where the filter cannot be read.
    Ends,
}

/// A filter that lies in the program's memory.
#[derive(Clone, Copy)]
pub struct Filter<'a>(&'a [libc::sock_filter]);

impl<'a> Filter<'a> {
    /// None where there is nothing to read: the kernel will refuse it too. Programs ask so what it can do.
    ///
    /// # Safety
    /// Nobody changes what can be read at `program` and where that points to, a `sock_fprog`, in `'a`.
    pub unsafe fn at(program: *const libc::sock_fprog) -> Option<Self> {
        if program.is_null() || !program.is_aligned() || !can_read(program.addr(), size_of_val(&program) * 2)
        {
            return None;
        }
        // SAFETY: readable and aligned.
        let (length, first) = unsafe { ((*program).len as usize, (*program).filter) };
        let bytes = length * size_of::<libc::sock_filter>();
        let is_possible = (1..=MOST_INSTRUCTIONS).contains(&length) && first.is_aligned();
        if !is_possible || !can_read(first.addr(), bytes) {
            return None;
        }
        // SAFETY: readable and aligned; by the caller's promise nobody changes it.
        Some(Filter(unsafe { core::slice::from_raw_parts(first, length) }))
    }

    #[cfg(test)]
    pub(super) fn of(instructions: &'a [libc::sock_filter]) -> Self {
        Filter(instructions)
    }

    /// The filter's verdict on a call.
    pub(super) fn verdict(self, call: Call) -> Verdict {
        let Some(value) = Machine::new(call).run(self.0) else { return Verdict::Ends };
        match value & ACTION {
            libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG => Verdict::Passes,
            // Error 0 is a success that the kernel had no part in: memory that was to be given back has its bytes yet.
            libc::SECCOMP_RET_ERRNO if value & libc::SECCOMP_RET_DATA == 0 => Verdict::Ends,
            libc::SECCOMP_RET_ERRNO => Verdict::Fails,
            libc::SECCOMP_RET_TRACE | libc::SECCOMP_RET_USER_NOTIF => Verdict::IsTold,
            _ => Verdict::Ends,
        }
    }
}

fn can_read(address: usize, bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let first = address & !(PAGE - 1);
    address.checked_add(bytes).is_some_and(|end| {
        let pages = (end - first).div_ceil(PAGE);
        (0..pages).all(|page| is_readable(first + page * PAGE))
    })
}

struct Machine {
    data: [u32; DATA_WORDS],
    scratch: [u32; SCRATCH_WORDS],
    a: u32,
    x: u32,
}

/// The step after an instruction.
enum Next {
    Skip(usize),
    Return(u32),
}

impl Machine {
    fn new(call: Call) -> Self {
        // The number, the machine, an address of code, which is not known, and the halves of the arguments.
        let head = [call.number as u32, MACHINE, 0, 0].into_iter();
        let halves =
            call.arguments.into_iter().flat_map(|argument| [argument as u32, (argument >> 32) as u32]);
        let mut data = [0; DATA_WORDS];
        data.iter_mut().zip(head.chain(halves)).for_each(|(word, value)| *word = value);
        Machine { data, scratch: [0; SCRATCH_WORDS], a: 0, x: 0 }
    }

    /// The value that the filter returns; none where it does what the kernel would refuse. It ends: jumps lead
    /// forward only.
    fn run(&mut self, filter: &[libc::sock_filter]) -> Option<u32> {
        let mut at = 0;
        loop {
            match self.step(filter.get(at)?)? {
                Next::Skip(more) => at += 1 + more,
                Next::Return(value) => return Some(value),
            }
        }
    }

    fn step(&mut self, instruction: &libc::sock_filter) -> Option<Next> {
        let (code, k) = (u32::from(instruction.code), instruction.k);
        let place = k as usize;
        match code & 7 {
            libc::BPF_LD => self.a = self.loaded(code, k)?,
            libc::BPF_LDX => self.x = self.loaded(code, k)?,
            libc::BPF_ST => *self.scratch.get_mut(place)? = self.a,
            libc::BPF_STX => *self.scratch.get_mut(place)? = self.x,
            libc::BPF_ALU => self.a = self.calculated(code, k)?,
            libc::BPF_JMP => return Some(Next::Skip(self.jump(instruction)?)),
            libc::BPF_RET => return Some(Next::Return(if code & 0x18 == libc::BPF_A { self.a } else { k })),
            _ if code & 0xf8 == libc::BPF_TAX => self.x = self.a,
            _ => self.a = self.x,
        }
        Some(Next::Skip(0))
    }

    fn loaded(&self, code: u32, k: u32) -> Option<u32> {
        match code & 0xe0 {
            libc::BPF_ABS if k.is_multiple_of(4) => self.data.get(k as usize / 4).copied(),
            libc::BPF_IMM => Some(k),
            libc::BPF_MEM => self.scratch.get(k as usize).copied(),
            libc::BPF_LEN => Some(size_of_val(&self.data) as u32),
            _ => None,
        }
    }

    fn calculated(&self, code: u32, k: u32) -> Option<u32> {
        let by = if code & 8 == libc::BPF_X { self.x } else { k };
        Some(match code & 0xf0 {
            libc::BPF_ADD => self.a.wrapping_add(by),
            libc::BPF_SUB => self.a.wrapping_sub(by),
            libc::BPF_MUL => self.a.wrapping_mul(by),
            libc::BPF_DIV => self.a.checked_div(by)?,
            libc::BPF_OR => self.a | by,
            libc::BPF_AND => self.a & by,
            libc::BPF_LSH => self.a.checked_shl(by)?,
            libc::BPF_RSH => self.a.checked_shr(by)?,
            libc::BPF_NEG => self.a.wrapping_neg(),
            libc::BPF_XOR => self.a ^ by,
            _ => return None,
        })
    }

    fn jump(&self, instruction: &libc::sock_filter) -> Option<usize> {
        let code = u32::from(instruction.code);
        let by = if code & 8 == libc::BPF_X { self.x } else { instruction.k };
        let holds = match code & 0xf0 {
            libc::BPF_JA => return Some(instruction.k as usize),
            libc::BPF_JEQ => self.a == by,
            libc::BPF_JGT => self.a > by,
            libc::BPF_JGE => self.a >= by,
            libc::BPF_JSET => self.a & by != 0,
            _ => return None,
        };
        Some(usize::from(if holds { instruction.jt } else { instruction.jf }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};

    fn line(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }

    fn call(number: libc::c_long, third: u64) -> Call {
        Call { number, arguments: [0, 0, third, 0, 0, 0] }
    }

    #[test]
    fn a_filter_is_asked_for_the_number_and_for_each_half_of_an_argument() {
        let filter = [
            line(BPF_LD | BPF_W | BPF_ABS, 0, 0, 4),
            line(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, MACHINE),
            line(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
            line(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
            line(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 28),
            line(BPF_LD | BPF_W | BPF_ABS, 0, 0, 32),
            line(BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xff),
            line(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 4),
            line(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
            line(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | 1),
            line(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_KILL_THREAD),
        ];
        let success = [line(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO)];
        assert_eq!(Filter::of(&success).verdict(call(28, 4)), Verdict::Ends, "it does not do the work");
        let of = |number, third| Filter::of(&filter).verdict(call(number, third));
        assert_eq!(of(28, 4), Verdict::Passes);
        assert_eq!(of(28, 5), Verdict::Fails);
        assert_eq!(of(29, 4), Verdict::Ends);
    }

    #[test]
    fn what_the_kernel_would_refuse_lets_nothing_pass() {
        let endless = [line(BPF_JMP | libc::BPF_JA, 0, 0, u32::MAX)];
        let beyond = [line(BPF_LD | BPF_W | BPF_ABS, 0, 0, 64), line(BPF_RET | BPF_K, 0, 0, 0x7fff_0000)];
        let divides = [line(BPF_ALU | libc::BPF_DIV, 0, 0, 0), line(BPF_RET | BPF_K, 0, 0, 0x7fff_0000)];
        let falls_off = [line(BPF_JMP | BPF_JSET | BPF_K, 0, 9, 1)];
        for filter in [&endless[..], &beyond, &divides, &falls_off, &[]] {
            assert_eq!(Filter::of(filter).verdict(call(1, 0)), Verdict::Ends);
        }
    }

    #[test]
    fn an_address_where_nothing_is_holds_no_filter() {
        let program = libc::sock_fprog { len: 3, filter: core::ptr::without_provenance_mut(4096) };
        // SAFETY: nobody changes it.
        unsafe {
            assert!(Filter::at(core::ptr::null()).is_none());
            assert!(Filter::at(core::ptr::without_provenance(8)).is_none());
            assert!(Filter::at(&program).is_none());
        }
    }
}
