//! The differences between machines: the breakpoint registers, the instruction pointer, the instructions' lengths, and
//! the signature before an abort handler.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

pub use own::{GOES_ON_AFTER_A_STOP, SIGNATURE, instructions, set_breakpoint, stands_at};

#[cfg(target_arch = "x86_64")]
mod own {
    use super::{Errno, Pid, ptrace};
    use iced_x86::{Decoder, DecoderOptions};
    use std::mem::offset_of;

    pub const SIGNATURE: u32 = 0x5305_3053;

    /// The processor passes the instruction that it has stopped at (RF).
    pub const GOES_ON_AFTER_A_STOP: bool = true;

    /// Enables debug register 0 for the thread; type and length 0 mean an instruction.
    const ENABLED: i64 = 1;

    pub fn stands_at(child: Pid) -> Result<u64, Errno> {
        ptrace::getregs(child).map(|registers| registers.rip)
    }

    pub fn set_breakpoint(child: Pid, address: Option<u64>) -> Result<(), Errno> {
        let register = |number: usize| {
            (offset_of!(libc::user, u_debugreg) + number * size_of::<u64>()) as ptrace::AddressType
        };
        ptrace::write_user(child, register(7), 0)?;
        let Some(address) = address else { return Ok(()) };
        ptrace::write_user(child, register(0), address as i64)?;
        ptrace::write_user(child, register(7), ENABLED)
    }

    pub fn instructions(bytes: &[u8], start: u64) -> Vec<u64> {
        let decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        decoder.into_iter().map(|instruction| instruction.ip()).collect()
    }
}

#[cfg(target_arch = "aarch64")]
mod own {
    use super::{Errno, Pid, ptrace};

    pub const SIGNATURE: u32 = 0xd428_bc00;

    /// The kernel stops the thread at the same instruction again.
    pub const GOES_ON_AFTER_A_STOP: bool = false;

    const BREAKPOINTS: libc::c_int = 0x402; // NT_ARM_HW_BREAK
    /// Enabled, for user mode, four bytes long, an instruction.
    const ENABLED: u64 = 1 | 2 << 1 | 0xf << 5;

    pub fn stands_at(child: Pid) -> Result<u64, Errno> {
        ptrace::getregs(child).map(|registers| registers.pc)
    }

    pub fn set_breakpoint(child: Pid, address: Option<u64>) -> Result<(), Errno> {
        // `struct user_hwdebug_state` with one register: a head of 8 bytes, the address, the control.
        let mut state = [0, address.unwrap_or(0), if address.is_some() { ENABLED } else { 0 }];
        let mut vector = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: size_of_val(&state) };
        // SAFETY: the kernel reads what the vector describes.
        let set = unsafe {
            libc::ptrace(libc::PTRACE_SETREGSET, child.as_raw(), BREAKPOINTS as usize, &mut vector)
        };
        Errno::result(set).map(drop)
    }

    pub fn instructions(bytes: &[u8], start: u64) -> Vec<u64> {
        (start..start + bytes.len() as u64).step_by(4).collect()
    }
}
