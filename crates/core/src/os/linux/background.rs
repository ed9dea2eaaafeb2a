//! What a thread of ours is to the system that works beside the program's.

use super::Linux;
use core::ffi::c_long;
use core::ptr;

impl Linux {
    /// Whether a system call may be made now.
    pub fn may_ask(&self, _number: c_long) -> bool {
        true
    }

    /// Fills in the CPUs that this process's main thread may run on; returns the words that the system gave.
    pub fn cpus_of_main_thread(&self, mask: &mut [u64]) -> usize {
        // SAFETY: the kernel writes at most as many bytes as the slice has.
        let filled = unsafe {
            let process = libc::syscall(libc::SYS_getpid);
            libc::syscall(libc::SYS_sched_getaffinity, process, size_of_val(mask), mask.as_mut_ptr())
        };
        filled.max(0) as usize / size_of::<u64>()
    }

    /// Gives this thread a table of descriptors of its own, which is empty: what it opens has no number in the
    /// program's, and no child gets it. False where the system does not (before Linux 5.9).
    pub fn leave_descriptors(&self) -> bool {
        if !self.may_ask(libc::SYS_close_range) {
            return false;
        }
        let (first, last, flags) = (0, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
        // SAFETY: no code that runs in this thread uses a descriptor that it did not open.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    }
}

/// The program's descriptor of this number, for a thread that has a table of its own; -1 where there is none.
pub(super) fn borrow_descriptor(number: i32) -> i32 {
    // SAFETY: the calls take no pointers but a null one; what they open is ours.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, libc::syscall(libc::SYS_getpid), 0);
        if process < 0 {
            return -1;
        }
        let borrowed = libc::syscall(libc::SYS_pidfd_getfd, process, number, ptr::null::<u8>());
        libc::syscall(libc::SYS_close, process);
        borrowed as i32
    }
}
