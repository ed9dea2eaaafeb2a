//! Functions put before libc's for the janitor, whose thread starts and stops with what the program does with its own.
//!
//! It starts when the program creates a thread, which we see because the shared library's `pthread_create`
//! and `thrd_create` come first: a safe place, since the program holds no lock of libc's there. A program
//! that never creates a thread never gets one. `unshare` and `setns` demand a single thread in some uses, so
//! the janitor leaves where they are refused; and it leaves for good when the main thread does, or is told
//! to, because a process ends with its last thread. A main thread in the strict mode of seccomp can only end so by a raw system
//! call, and the janitor leaves before. Otherwise a main thread that ends itself by a raw system call is not seen. A child in its parent's memory has none: what it does with its threads leaves the parent's alone.

use super::c::{Create, Pointer, Start, errno, set_errno};
use super::janitor::{self, Inherited};
use super::{children, heap, moved, next};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vcmalloc_core::os::Os;

/// The main thread: the one that loaded this library, or the one that a child was forked in.
static MAIN: AtomicU64 = AtomicU64::new(0);

/// When the library is loaded.
pub fn note_main_thread() {
    if is_main_thread() {
        // SAFETY: asks for a number.
        MAIN.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
    }
}

fn is_main_thread() -> bool {
    heap().os().thread_number() == heap().os().process_number()
}

/// # Safety
/// As libc's function of this name.
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(thread: Pointer, start: Pointer, argument: Pointer) -> c_int {
    const THRD_ERROR: c_int = 2;
    let (Some(create_c11), Some(create)) = (next::create_c11(), next::create()) else { return THRD_ERROR };
    // SAFETY: by the caller's promise.
    with_janitor(create, THRD_ERROR, || unsafe { create_c11(thread, start, argument) })
}

const ROUNDS_AFTER_JANITOR: u32 = 20;
/// In nanoseconds.
const WAIT_AFTER_JANITOR: u64 = 1_000_000;

/// Makes a thread of the program, and the janitor's where there is none. The program's comes first: if the system
/// allows no more threads, the janitor's ends, for good in this process, and slow paths do its work.
fn with_janitor(create: Create, refusal: c_int, make: impl Fn() -> c_int) -> c_int {
    if heap().is_guest() {
        return make();
    }
    heap().look_at_process();
    let inherited = heap().meet_threads().then(|| {
        meet_main_thread();
        Inherited::here()
    });
    let mut outcome = make();
    if outcome == refusal && janitor::stop() {
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
    janitor::start_with(create, inherited);
    outcome
}

/// Makes the janitor's thread where the program makes none of its own. Called where this thread has no lock of libc's.
pub fn start_janitor() {
    if heap().is_guest() {
        return;
    }
    heap().look_at_process();
    if let Some(create) = next::create().filter(|_| !heap().is_inside()) {
        meet_main_thread();
        janitor::start_with(create, None);
    }
}

/// Lets the option `janitor` take effect at once: its thread has ended, or been made, when this returns.
pub fn obey_option() {
    if !janitor::end_if_off() && heap().is_to_have_janitor() {
        start_janitor();
    }
}

/// The main thread of a forked child may be one that was not its parent's: the process then goes on when its
/// start function returns, until the last thread has ended, which must not be the janitor's. A thread's own
/// values are destroyed just before libc counts the threads that are left.
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

extern "C" fn at_end_of_main_thread(_: Pointer) {
    leave_process();
}

/// Before this thread can do nothing more but end.
pub fn leave_process_if_main() {
    if is_main_thread() {
        leave_process();
    }
}

/// A process whose main thread leaves ends with its last thread, which must not be ours.
fn leave_process() {
    if !heap().is_guest() {
        heap().retire_janitor();
        janitor::stop();
    }
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: Pointer) -> ! {
    leave_process_if_main();
    match next::exit() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(value) },
        None => heap().os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_exit(result: c_int) -> ! {
    leave_process_if_main();
    match next::exit_c11() {
        // SAFETY: by the caller's promise.
        Some(exit) => unsafe { exit(result) },
        None => heap().os().abort(),
    }
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    let Some(cancel) = next::cancel() else { return libc::ESRCH };
    if thread == MAIN.load(Ordering::Relaxed) && !heap().is_guest() {
        heap().retire_janitor();
    }
    // SAFETY: by the caller's promise.
    unsafe { cancel(thread) }
}

/// Tries a call again without the janitor, where it may have been refused because of it.
fn alone(call: impl Fn() -> c_int) -> c_int {
    let first = call();
    let refused = matches!(errno(), libc::EINVAL | libc::EUSERS | libc::EPERM);
    if first == 0 || !refused || !janitor::stop() {
        return first;
    }
    let again = call();
    if let Some(create) = next::create().filter(|_| again != 0) {
        // It was refused for another reason: the janitor goes on.
        janitor::start_with(create, None);
    }
    again
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    match next::unshare() {
        // SAFETY: by the caller's promise.
        Some(unshare) => renumbering(flags, alone(|| unsafe { unshare(flags) })),
        None => refused(),
    }
}

/// # Safety
/// As libc's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    match next::setns() {
        // SAFETY: by the caller's promise.
        Some(setns) => renumbering(kind, alone(|| unsafe { setns(descriptor, kind) })),
        None => refused(),
    }
}

/// Passes an answer on. Kind 0 is any namespace.
fn renumbering(kinds: c_int, answer: c_int) -> c_int {
    if answer == 0 && (kinds == 0 || kinds & libc::CLONE_NEWPID != 0) {
        children::expect_other_numbers();
    }
    answer
}

fn refused() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}
