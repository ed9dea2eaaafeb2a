//! The janitor's thread: when it starts, and for whom it stops.
//!
//! It starts when the program creates a thread, which we see because the shared library's `pthread_create`
//! and `thrd_create` come first: a safe place, since the program holds no lock of libc's there. A program
//! that never creates a thread never gets one. `unshare` and `setns` demand a single thread in some uses, so
//! the janitor leaves where they are refused; and it leaves for good when the main thread does, or is told
//! to, because a process ends with its last thread. Only a main thread that ends itself by a raw system call
//! is not seen.

use super::heap;
use super::janitor_thread::{start_with, stop};
use super::malloc::Pointer;
#[cfg(shared)]
use super::moved;
#[cfg(shared)]
use core::ffi::CStr;
use core::ffi::c_int;
#[cfg(shared)]
use core::ptr;
#[cfg(shared)]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vcmalloc_core::options::OptionId;
#[cfg(shared)]
use vcmalloc_core::os::Os;

pub type Start = extern "C" fn(Pointer) -> Pointer;

/// The main thread: the one that loaded this library, or the one that a child was forked in.
#[cfg(shared)]
static MAIN: AtomicU64 = AtomicU64::new(0);

pub type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, Pointer) -> c_int;

/// libc's functions behind ours. Looked up once when the library is loaded: later the dynamic linker's lock
/// may be held by a thread that waits for the one that asks.
#[cfg(shared)]
pub mod next {
    use super::{CStr, Create, Pointer, c_int, moved};
    use core::sync::atomic::{AtomicPtr, Ordering};

    #[repr(C)]
    pub struct Next {
        found: AtomicPtr<core::ffi::c_void>,
        name: &'static CStr,
    }

    impl Next {
        const fn new(name: &'static CStr) -> Self {
            Next { name, found: AtomicPtr::new(core::ptr::null_mut()) }
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

    pub static CREATE: Next = Next::new(c"pthread_create");
    pub static CREATE_C11: Next = Next::new(c"thrd_create");
    pub static EXIT_C11: Next = Next::new(c"thrd_exit");
    pub static CANCEL: Next = Next::new(c"pthread_cancel");
    pub static EXIT: Next = Next::new(c"pthread_exit");
    pub static UNSHARE: Next = Next::new(c"unshare");
    pub static SETNS: Next = Next::new(c"setns");
    pub static AFFINITY: Next = Next::new(c"pthread_setaffinity_np");
    pub static DLOPEN: Next = Next::new(c"dlopen");
    pub static SIGNAL: Next = Next::new(c"signal");
    pub static SYSV_SIGNAL: Next = Next::new(c"__sysv_signal");
    pub static PRCTL: Next = Next::new(c"prctl");
    pub static SYSCALL: Next = Next::new(c"syscall");

    pub fn set_affinity() -> Option<unsafe extern "C" fn(libc::pthread_t, usize, *const u64) -> c_int> {
        // SAFETY: as below.
        unsafe { core::mem::transmute(AFFINITY.find()) }
    }
    type Signal = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;

    pub fn signal() -> Option<Signal> {
        // SAFETY: as below.
        unsafe { core::mem::transmute(SIGNAL.find()) }
    }
    pub fn sysv_signal() -> Option<Signal> {
        // SAFETY: as below.
        unsafe { core::mem::transmute(SYSV_SIGNAL.find()) }
    }
    pub fn create() -> Option<Create> {
        // SAFETY: the type is that of libc's function; a null pointer is None.
        unsafe { core::mem::transmute(CREATE.find()) }
    }
    pub fn create_c11() -> Option<unsafe extern "C" fn(Pointer, Pointer, Pointer) -> c_int> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(CREATE_C11.find()) }
    }
    pub fn exit_c11() -> Option<unsafe extern "C" fn(c_int) -> !> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(EXIT_C11.find()) }
    }
    pub fn cancel() -> Option<unsafe extern "C" fn(libc::pthread_t) -> c_int> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(CANCEL.find()) }
    }
    pub fn exit() -> Option<unsafe extern "C" fn(Pointer) -> !> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(EXIT.find()) }
    }
    pub fn unshare() -> Option<unsafe extern "C" fn(c_int) -> c_int> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(UNSHARE.find()) }
    }
    pub fn setns() -> Option<unsafe extern "C" fn(c_int, c_int) -> c_int> {
        // SAFETY: as above.
        unsafe { core::mem::transmute(SETNS.find()) }
    }
}

/// Looks libc's functions up, when the library is loaded.
pub fn find_next() {
    #[cfg(shared)]
    {
        // By name: a reference would keep the library from being loaded where the C library has no such variable.
        heap().os().note_single_threaded(moved::find(libc::RTLD_DEFAULT, c"__libc_single_threaded").cast());
        use next::{
            AFFINITY, CANCEL, CREATE, CREATE_C11, DLOPEN, EXIT, EXIT_C11, PRCTL, SETNS, SIGNAL, SYSCALL,
            SYSV_SIGNAL, UNSHARE,
        };
        let threads = [&CREATE, &CREATE_C11, &EXIT, &EXIT_C11, &CANCEL, &UNSHARE, &SETNS, &AFFINITY];
        for next in threads.into_iter().chain([&DLOPEN, &PRCTL, &SYSCALL, &SIGNAL, &SYSV_SIGNAL]) {
            next.find();
        }
        super::janitor_thread::note_cpus();
        if is_main_thread() {
            // SAFETY: asks for a number.
            MAIN.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
        }
    }
}

#[cfg(shared)]
fn is_main_thread() -> bool {
    heap().os().thread_number() == heap().os().process_number()
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: Pointer,
) -> c_int {
    let Some(create) = next::create() else { return libc::EAGAIN };
    // SAFETY: by the caller's promise.
    with_janitor(create, libc::EAGAIN, || unsafe { create(thread, attributes, start, argument) })
}

/// C11's way to a new thread, which goes past `pthread_create` inside libc.
///
/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: Pointer, start: Pointer, argument: Pointer) -> c_int {
    const THRD_ERROR: c_int = 2;
    let (Some(create_c11), Some(create)) = (next::create_c11(), next::create()) else { return THRD_ERROR };
    // SAFETY: by the caller's promise.
    with_janitor(create, THRD_ERROR, || unsafe { create_c11(thread, start, argument) })
}

#[cfg(shared)]
const ROUNDS_AFTER_JANITOR: u32 = 20;
/// In nanoseconds.
#[cfg(shared)]
const WAIT_AFTER_JANITOR: u64 = 1_000_000;

/// Makes a thread of the program, and the janitor's where there is none. The program's comes first: where the
/// system allows no more threads, the janitor's ends, for good in this process, and slow paths do its work.
#[cfg(shared)]
fn with_janitor(create: Create, refusal: c_int, make: impl Fn() -> c_int) -> c_int {
    heap().look_at_process();
    if heap().meet_threads() {
        meet_main_thread();
    }
    let mut outcome = make();
    if outcome == refusal && stop() {
        // The kernel counts a thread for an instant longer than libc waits for it.
        for round in 0..ROUNDS_AFTER_JANITOR {
            if round > 0 {
                heap().os().wait_for(&AtomicU32::new(0), 0, WAIT_AFTER_JANITOR);
            }
            outcome = make();
            if outcome != refusal {
                break;
            }
        }
        if outcome == 0 {
            heap().retire_janitor();
        }
    } else if outcome != 0 {
        return outcome;
    }
    start_with(create);
    outcome
}

/// The main thread of a forked child may be one that was not its parent's: the process then goes on when its
/// start function returns, until the last thread has ended, which must not be the janitor's. A thread's own
/// values are destroyed just before libc counts the threads that are left.
#[cfg(shared)]
fn meet_main_thread() {
    // SAFETY: asks for a number.
    let own = unsafe { libc::pthread_self() };
    if !is_main_thread() || MAIN.swap(own, Ordering::Relaxed) == own {
        return;
    }
    let (Some(create), Some(set)) = (moved::pthread_key_create(), moved::pthread_setspecific()) else {
        return;
    };
    let mut key = 0;
    // SAFETY: the destructor is ours and lives as long as the process.
    unsafe {
        if create(&mut key, Some(at_end_of_main_thread)) == 0 {
            set(key, ptr::without_provenance(1));
        }
    }
}

#[cfg(shared)]
extern "C" fn at_end_of_main_thread(_: Pointer) {
    leave_process();
}

/// A process whose main thread leaves ends with its last thread, which must not be ours.
#[cfg(shared)]
fn leave_process() {
    heap().retire_janitor();
    stop();
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: Pointer) -> ! {
    if is_main_thread() {
        leave_process();
    }
    match next::exit() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(value) },
        None => heap().os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_exit(result: c_int) -> ! {
    if is_main_thread() {
        leave_process();
    }
    match next::exit_c11() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(result) },
        None => heap().os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    let Some(cancel) = next::cancel() else { return libc::ESRCH };
    if thread == MAIN.load(Ordering::Relaxed) {
        heap().retire_janitor();
    }
    // SAFETY: by the caller's promise.
    unsafe { cancel(thread) }
}

/// Starts the janitor's thread in programs that link the static library; 0, or 1 if it runs or is switched
/// off.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_janitor_start() -> c_int {
    heap().look_at_process();
    unsafe extern "C" {
        #[link_name = "pthread_create"]
        fn create_thread(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            start: Start,
            argument: Pointer,
        ) -> c_int;
    }
    // Inside the shared library this name is ours, whose first act is to start the janitor for another
    // thread.
    #[cfg(shared)]
    let create = next::create().unwrap_or(create_thread);
    #[cfg(not(shared))]
    let create: Create = create_thread;
    c_int::from(!start_with(create))
}

/// Lets the option `janitor` take effect at once: its thread has ended, or been made, when this returns.
pub fn obey_option() {
    if heap().options.is_on(OptionId::janitor) {
        #[cfg(shared)]
        if let Some(create) = next::create().filter(|_| heap().is_threaded() && !heap().is_inside()) {
            start_with(create);
        }
    } else if !stop() {
        heap().stop_janitor();
    }
}

/// Tries a call again without the janitor, where it may have been refused because of it.
#[cfg(shared)]
fn alone(call: impl Fn() -> c_int) -> c_int {
    let first = call();
    let refused = matches!(super::malloc::errno(), libc::EINVAL | libc::EUSERS | libc::EPERM);
    if first == 0 || !refused || !stop() {
        return first;
    }
    let again = call();
    if let Some(create) = next::create().filter(|_| again != 0) {
        // It was refused for another reason: the janitor goes on.
        start_with(create);
    }
    again
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    match next::unshare() {
        // SAFETY: by the caller's promise.
        Some(unshare) => alone(|| unsafe { unshare(flags) }),
        None => refused(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(shared)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    match next::setns() {
        // SAFETY: by the caller's promise.
        Some(setns) => alone(|| unsafe { setns(descriptor, kind) }),
        None => refused(),
    }
}

#[cfg(shared)]
fn refused() -> c_int {
    super::malloc::set_errno(libc::ENOSYS);
    -1
}
