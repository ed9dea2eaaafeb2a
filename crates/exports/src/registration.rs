//! Whether threads are registered for restartable sequences by ourselves, and how they take it back.

use super::{heap, moved};
use core::ffi::CStr;
use vcmalloc_core::heap::FrontReason;
use vcmalloc_core::os::Os;

/// The area of google/tcmalloc and of the first librseq; a function of every librseq.
const THEIRS: [&CStr; 2] = [c"__rseq_abi", c"rseq_register_current_thread"];

/// When the library is loaded. If the C library registers there is nothing to do. If another library does it, it stays
/// theirs: a name tells, or the kernel, which takes one area from a thread. Both abort where one thread can be
/// registered and a later one cannot, so they get all threads or none.
pub fn look() {
    if heap().front_reason() != FrontReason::Own {
        return;
    }
    let is_theirs = THEIRS.iter().any(|name| !moved::find(libc::RTLD_DEFAULT, name).is_null());
    if is_theirs || !thread_end::allow_registration() || !heap().os().enter_sequences() {
        heap().os().forbid_registration();
        heap().leave_registration_to_others();
    }
}

/// Somebody else is about to register this thread (`filters` sees it), who came after us: it becomes theirs, no other is
/// registered by us any more, and those that are ours stay so until they are asked for too. The program finds what it would
/// find without us.
#[cfg(shared)]
pub fn give_way() {
    if matches!(heap().front_reason(), FrontReason::Own | FrontReason::Others) {
        heap().os().forbid_registration();
        heap().os().leave_sequences();
        heap().leave_registration_to_others();
    }
}

#[cfg(shared)]
mod thread_end {
    use super::heap;

    /// The shared library is glibc's companion, where a thread's memory outlives it.
    pub fn allow_registration() -> bool {
        heap().os().allow_registration(None);
        true
    }
}

/// The archive may be linked with another C library, which unmaps a detached thread's memory before it ends.
#[cfg(not(shared))]
mod thread_end {
    use super::heap;
    use crate::c::Pointer;
    use core::ptr;
    use core::sync::atomic::{AtomicU32, Ordering};

    static KEY: AtomicU32 = AtomicU32::new(0);

    /// Without a look at ends with glibc, which keeps a thread's memory until the kernel has forgotten the thread, and
    /// whose `pthread_setspecific` may allocate. False where ends cannot be seen.
    pub fn allow_registration() -> bool {
        if is_glibc() {
            heap().os().allow_registration(None);
            return true;
        }
        let mut key = 0;
        // SAFETY: the destructor lives as long as the process.
        let has_key = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) == 0 };
        if has_key {
            KEY.store(key, Ordering::Relaxed);
            heap().os().allow_registration(Some(entered));
        }
        has_key
    }

    fn is_glibc() -> bool {
        let symbol: *const ();
        // SAFETY: reads our own global offset table; a weak name that nobody defines has address 0 there.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                ".weak gnu_get_libc_version",
                "adrp {0}, :got:gnu_get_libc_version",
                "ldr {0}, [{0}, :got_lo12:gnu_get_libc_version]",
                out(reg) symbol, options(nostack, preserves_flags, readonly)
            );
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                ".weak gnu_get_libc_version",
                "mov {}, [rip + gnu_get_libc_version@GOTPCREL]",
                out(reg) symbol, options(nostack, preserves_flags, readonly)
            );
        }
        !symbol.is_null()
    }

    extern "C" fn entered() {
        // SAFETY: the key exists; musl stores the value in the thread's own table.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::without_provenance(1)) };
    }

    unsafe extern "C" fn at_end(_: Pointer) {
        heap().os().leave_sequences();
    }
}
