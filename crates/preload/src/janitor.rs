//! The janitor's thread: when it starts, and for whom it stops.
//!
//! It starts when the program creates a thread, which we see because the shared library's `pthread_create`
//! and `thrd_create` come first: a safe place, since the program holds no lock of libc's there. A program
//! that never creates a thread never gets one. `unshare` and `setns` demand a single thread in some uses, so
//! the janitor leaves where they are refused; and it leaves for good when the main thread does, or is told
//! to, because a process ends with its last thread. Only a main thread that ends itself by a raw system call
//! is not seen.

use super::malloc::Pointer;
use super::{HEAP, moved};
#[cfg(feature = "shared")]
use core::ffi::CStr;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Enough for a thread that only looks at tables; more where the program's thread-local storage needs it.
const STACK_BYTES: usize = 128 << 10;

type Start = extern "C" fn(Pointer) -> Pointer;

/// The thread's handle and the process it belongs to, for whoever waits for its end.
static THREAD: AtomicU64 = AtomicU64::new(0);
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The main thread, where it was the one that loaded this library.
#[cfg(feature = "shared")]
static MAIN: AtomicU64 = AtomicU64::new(0);

type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, Pointer) -> c_int;

/// libc's functions behind ours. Looked up once when the library is loaded: later the dynamic linker's lock
/// may be held by a thread that waits for the one that asks.
#[cfg(feature = "shared")]
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
    pub static DLOPEN: Next = Next::new(c"dlopen");
    pub static PRCTL: Next = Next::new(c"prctl");
    pub static SYSCALL: Next = Next::new(c"syscall");

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
    #[cfg(feature = "shared")]
    {
        use next::{CANCEL, CREATE, CREATE_C11, DLOPEN, EXIT, EXIT_C11, PRCTL, SETNS, SYSCALL, UNSHARE};
        let threads = [&CREATE, &CREATE_C11, &EXIT, &EXIT_C11, &CANCEL, &UNSHARE, &SETNS];
        for next in threads.into_iter().chain([&DLOPEN, &PRCTL, &SYSCALL]) {
            next.find();
        }
        if is_main_thread() {
            // SAFETY: asks for a number.
            MAIN.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
        }
    }
}

#[cfg(feature = "shared")]
fn is_main_thread() -> bool {
    use vcmalloc_core::os::Os;
    HEAP.os().thread_number() == HEAP.os().process_number()
}

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
    let Some(create) = next::create() else { return libc::EAGAIN };
    HEAP.look_at_process();
    // SAFETY: by the caller's promise.
    let outcome = unsafe { create(thread, attributes, start, argument) };
    if outcome == 0 {
        start_with(create);
    }
    outcome
}

/// C11's way to a new thread, which goes past `pthread_create` inside libc.
///
/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: Pointer, start: Pointer, argument: Pointer) -> c_int {
    const THRD_ERROR: c_int = 2;
    let Some(create) = next::create_c11() else { return THRD_ERROR };
    HEAP.look_at_process();
    // SAFETY: by the caller's promise.
    let outcome = unsafe { create(thread, start, argument) };
    if let (0, Some(create)) = (outcome, next::create()) {
        start_with(create);
    }
    outcome
}

/// A process whose main thread leaves ends with its last thread, which must not be ours: it is told to end.
/// Nobody waits for that here, where a thread may be cancelled itself, or be ours, in a function of the
/// program.
///
/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: Pointer) -> ! {
    use vcmalloc_core::os::Os;
    if is_main_thread() {
        HEAP.retire_janitor();
    }
    match next::exit() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(value) },
        None => HEAP.os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_exit(result: c_int) -> ! {
    use vcmalloc_core::os::Os;
    if is_main_thread() {
        HEAP.retire_janitor();
    }
    match next::exit_c11() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(result) },
        None => HEAP.os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    let Some(cancel) = next::cancel() else { return libc::ESRCH };
    if thread == MAIN.load(Ordering::Relaxed) {
        HEAP.retire_janitor();
    }
    // SAFETY: by the caller's promise.
    unsafe { cancel(thread) }
}

/// Starts the janitor's thread in programs that link the static library; 0, or 1 if it runs or is switched
/// off.
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
    // Inside the shared library this name is ours, whose first act is to start the janitor for another
    // thread.
    #[cfg(feature = "shared")]
    let create = next::create().unwrap_or(create_thread);
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

/// A new thread inherits the mask of the thread that makes it: no signal of the program is handled by the
/// janitor.
fn with_signals_blocked(act: impl FnOnce() -> bool) -> bool {
    let Some(set_mask) = moved::pthread_sigmask() else { return false };
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: each call fills or reads the set that it is given.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        set_mask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let outcome = act();
        set_mask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        outcome
    }
}

fn create_janitor(create: Create) -> bool {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = 0;
    // SAFETY: the attributes are initialised before use; the thread's function is ours.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        if let Some(set_stack) = moved::pthread_attr_setstacksize() {
            set_stack(attributes.as_mut_ptr(), STACK_BYTES);
        }
        let made = create(&mut thread, attributes.as_ptr(), janitor, ptr::null_mut()) == 0
            || create(&mut thread, ptr::null(), janitor, ptr::null_mut()) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if made {
            PROCESS.store(libc::getpid(), Ordering::Relaxed);
            THREAD.store(thread, Ordering::Release);
        }
        made
    }
}

extern "C" fn janitor(_: *mut c_void) -> Pointer {
    if HEAP.os().may_ask(libc::SYS_prctl) {
        // SAFETY: the name is a C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"vcm-janitor".as_ptr()) };
    }
    HEAP.run_janitor();
    if HEAP.janitor_is_retired() {
        // Nobody waits for its end.
        HEAP.unclaim_janitor();
    }
    ptr::null_mut()
}

/// Ends the janitor's thread and waits for it; true if there was one.
#[cfg(feature = "shared")]
fn stop() -> bool {
    let thread = THREAD.swap(0, Ordering::AcqRel);
    // SAFETY: asks for numbers.
    let (process, own) = unsafe { (libc::getpid(), libc::pthread_self()) };
    if thread == 0 || thread == own {
        return false;
    }
    if PROCESS.load(Ordering::Relaxed) != process {
        // A child that was made without fork's handlers: the thread is its parent's.
        HEAP.unclaim_janitor();
        return false;
    }
    if let Some(join) = moved::pthread_join()
        && HEAP.stop_janitor()
    {
        // SAFETY: the swap made us the only one who knows the handle of a thread that nobody detached.
        unsafe { join(thread, ptr::null_mut()) };
        HEAP.unclaim_janitor();
    }
    true
}

/// Tries a call again without the janitor, where it may have been refused because of it.
#[cfg(feature = "shared")]
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

/// In a forked child the handle names nobody.
pub fn forget() {
    THREAD.store(0, Ordering::Relaxed);
    #[cfg(feature = "shared")]
    // SAFETY: asks for a number.
    MAIN.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
}

/// # Safety
/// As libc's function of this name.
#[cfg(feature = "shared")]
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
#[cfg(feature = "shared")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    match next::setns() {
        // SAFETY: by the caller's promise.
        Some(setns) => alone(|| unsafe { setns(descriptor, kind) }),
        None => refused(),
    }
}

#[cfg(feature = "shared")]
fn refused() -> c_int {
    super::malloc::set_errno(libc::ENOSYS);
    -1
}
