//! The machine's counter, and what it counts in a nanosecond.

use std::time::{Duration, Instant};

/// Goes on at one speed, and is read without a system call.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets every program read it.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

/// Ticks in a nanosecond, from a wait of some milliseconds.
pub fn in_a_nanosecond() -> f64 {
    let (began, first) = (Instant::now(), now());
    std::thread::sleep(Duration::from_millis(20));
    let (last, took) = (now(), began.elapsed());
    last.wrapping_sub(first) as f64 / took.as_nanos() as f64
}
