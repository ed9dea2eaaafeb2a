//! The janitor's thread: when it starts, and for whom it stops.
//!
//! It starts when the program creates a thread, which we see because the shared library's `pthread_create` comes first:
//! a safe place, since the program holds no lock of libc's there. A program that never creates a thread never gets
//! one. `unshare` and `setns` demand a single thread in some uses, so the janitor leaves before them.

use super::HEAP;
use super::malloc::Pointer;
#[cfg(feature = "shared")]
use core::ffi::CStr;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

/// Enough for a thread that only looks at tables; more where the program's thread-local storage needs it.
const STACK_BYTES: usize = 128 << 10;

type Start = extern "C" fn(Pointer) -> Pointer;

/// The thread's handle, for whoever waits for its end.
static THREAD: AtomicU64 = AtomicU64::new(0);

/// libc's own function behind one of ours.
///
/// # Safety
/// `T` is the type of the function called `name`.
#[cfg(feature = "shared")]
unsafe fn next<T: Copy>(name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<Pointer>()) };
    // SAFETY: looks a name up; the caller vouches for its type.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    // SAFETY: a function pointer has the size of an address (checked above).
    if found.is_null() { None } else { Some(unsafe { core::mem::transmute_copy(&found) }) }
}

type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, Pointer) -> c_int;

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: Pointer,
) -> c_int {
    // SAFETY: the type is libc's.
    let Some(create) = (unsafe { next::<Create>(c"pthread_create") }) else { return libc::EAGAIN };
    // SAFETY: by the caller's promise.
    let outcome = unsafe { create(thread, attributes, start, argument) };
    if outcome == 0 {
        start_with(create);
    }
    outcome
}

/// Starts the janitor's thread in programs that link the static library; 0, or 1 if it runs or is switched off.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_janitor_start() -> c_int {
    unsafe extern "C" {
        #[link_name = "pthread_create"]
        fn create_thread(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            start: Start,
            argument: Pointer,
        ) -> c_int;
    }
    // Inside the shared library this name is ours, whose first act is to start the janitor for another thread.
    #[cfg(feature = "shared")]
    // SAFETY: the type is libc's.
    let create = unsafe { next::<Create>(c"pthread_create") }.unwrap_or(create_thread);
    #[cfg(not(feature = "shared"))]
    let create: Create = create_thread;
    c_int::from(!start_with(create))
}

fn start_with(create: Create) -> bool {
    if !HEAP.claim_janitor() {
        return false;
    }
    let errno = super::malloc::errno();
    let started = with_signals_blocked(|| create_janitor(create));
    super::malloc::set_errno(errno);
    if !started {
        HEAP.unclaim_janitor();
    }
    started
}

/// A new thread inherits the mask of the thread that makes it: no signal of the program is handled by the janitor.
fn with_signals_blocked(act: impl FnOnce() -> bool) -> bool {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: each call fills or reads the set that it is given.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let outcome = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        outcome
    }
}

fn create_janitor(create: Create) -> bool {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = 0;
    // SAFETY: the attributes are initialised before use; the thread's function is ours.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let made = create(&mut thread, attributes.as_ptr(), janitor, ptr::null_mut()) == 0
            || create(&mut thread, ptr::null(), janitor, ptr::null_mut()) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if made {
            THREAD.store(thread, Ordering::Release);
        }
        made
    }
}

extern "C" fn janitor(_: *mut c_void) -> Pointer {
    // SAFETY: the name is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"vcm-janitor".as_ptr()) };
    HEAP.run_janitor();
    ptr::null_mut()
}

/// Ends the janitor's thread and waits for it. The next `pthread_create` starts another.
#[cfg(feature = "shared")]
fn stop() {
    let thread = THREAD.swap(0, Ordering::AcqRel);
    if thread != 0 && HEAP.stop_janitor() {
        // SAFETY: the swap made us the only one who knows the handle of a thread that nobody detached.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        HEAP.unclaim_janitor();
    }
}

/// In a forked child the handle names nobody.
pub fn forget() {
    THREAD.store(0, Ordering::Relaxed);
}

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    stop();
    // SAFETY: the type is libc's.
    match unsafe { next::<unsafe extern "C" fn(c_int) -> c_int>(c"unshare") } {
        // SAFETY: by the caller's promise.
        Some(unshare) => unsafe { unshare(flags) },
        None => refused(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    stop();
    // SAFETY: the type is libc's.
    match unsafe { next::<unsafe extern "C" fn(c_int, c_int) -> c_int>(c"setns") } {
        // SAFETY: by the caller's promise.
        Some(setns) => unsafe { setns(descriptor, kind) },
        None => refused(),
    }
}

#[cfg(feature = "shared")]
fn refused() -> c_int {
    super::malloc::set_errno(libc::ENOSYS);
    -1
}
