//! The target of the instruction counter: tells the tracer where malloc, free and the rseq area are, then
//! makes pairs.
//!
//! Only meaningful under `vcm-bench instructions`; alone it would be killed by its own trap, so it refuses.

use crate::load::c_heap;
use anyhow::{Result, ensure};
use std::arch::asm;

/// Pairs before the first trap, so that every call afterwards finds a filled cache, and pairs between the
/// traps.
const WARM_UP: usize = 10_000;
pub const COUNTED: usize = 250;

pub fn run(bytes: usize) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let traced = status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"));
    ensure!(traced, "`steps` is for the instruction counter; run `vcm-bench instructions`");
    pairs(bytes, WARM_UP);
    let rseq = rseq_area();
    trap([libc::malloc as *const () as usize, libc::free as *const () as usize, rseq]);
    pairs(bytes, COUNTED);
    trap([0, 0, 0]);
    Ok(COUNTED as u64)
}

#[inline(never)]
fn pairs(bytes: usize, count: usize) {
    for _ in 0..count {
        // SAFETY: freed once, at once.
        unsafe { c_heap::release(c_heap::allocate(bytes)) };
    }
}

/// Stops under the tracer with three values in the argument registers.
fn trap(values: [usize; 3]) {
    // SAFETY: a breakpoint; the tracer resumes behind it with all registers as they were.
    unsafe { asm!("int3", in("rdi") values[0], in("rsi") values[1], in("rdx") values[2]) };
}

/// The restartable-sequence area that glibc registered for this thread, or 0 if there is none.
fn rseq_area() -> usize {
    // SAFETY: names of two data symbols of glibc >= 2.35; null if they are not there. Both are constant once
    // a program runs; the first word at fs is the thread pointer itself.
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        if size.is_null() || offset.is_null() || *size == 0 {
            return 0;
        }
        let thread: usize;
        asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags));
        thread.wrapping_add_signed(*offset)
    }
}
