//! libc's functions behind ours. Looked up once when the library is loaded: later the dynamic linker's lock may be held by
//! a thread that waits for the one that asks.

use super::c::{Create, Pointer};
use super::moved;
use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Code that leaves for a function by a jump reads the address found, which is the first field.
#[repr(C)]
pub struct Next {
    found: AtomicPtr<core::ffi::c_void>,
    name: &'static CStr,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Next { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    pub fn find(&self) -> Pointer {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = moved::find(libc::RTLD_NEXT, self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! next {
    ($($place:ident = $name:literal $(, $function:ident: $signature:ty)?;)+) => {
        $(
            pub static $place: Next = Next::new($name);
            $(pub fn $function() -> Option<$signature> {
                // SAFETY: the type is that of libc's function; a null pointer is None.
                unsafe { transmute($place.find()) }
            })?
        )+

        /// Looks all of them up.
        pub fn find_all() {
            for next in [$(&$place),+] {
                next.find();
            }
        }
    };
}

/// clone, with all that any flags ask for.
pub type Clone = unsafe extern "C" fn(Pointer, Pointer, c_int, Pointer, Pointer, Pointer, Pointer) -> c_int;
type Signal = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;

next! {
    CREATE = c"pthread_create", create: Create;
    CREATE_C11 = c"thrd_create", create_c11: unsafe extern "C" fn(Pointer, Pointer, Pointer) -> c_int;
    EXIT = c"pthread_exit", exit: unsafe extern "C" fn(Pointer) -> !;
    EXIT_C11 = c"thrd_exit", exit_c11: unsafe extern "C" fn(c_int) -> !;
    CANCEL = c"pthread_cancel", cancel: unsafe extern "C" fn(libc::pthread_t) -> c_int;
    CLONE = c"clone", clone: Clone;
    AFFINITY = c"pthread_setaffinity_np", set_affinity: unsafe extern "C" fn(libc::pthread_t, usize, *const u64) -> c_int;
    UNSHARE = c"unshare", unshare: unsafe extern "C" fn(c_int) -> c_int;
    SETNS = c"setns", setns: unsafe extern "C" fn(c_int, c_int) -> c_int;
    SIGNAL = c"signal", signal: Signal;
    SYSV_SIGNAL = c"__sysv_signal", sysv_signal: Signal;
    // Left for by a jump.
    DLOPEN = c"dlopen";
    PRCTL = c"prctl";
    SYSCALL = c"syscall";
}
