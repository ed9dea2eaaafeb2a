//! The program's action for SIGSEGV while ours is in its place.
//!
//! `faults` leaves our handler with the kernel, `signals` exchanges the program's action here. All is async-signal-safe.

use super::heap;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
use vcmalloc_core::os::Os;

unsafe extern "C" {
    /// libc's own name, which nobody puts another function before.
    pub fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

const PLACES: usize = 16;

/// Actions, written one place further each time, but not over one that is being written. A reader copies one and looks whether
/// it was written over meanwhile.
struct Place {
    /// The number of the writing; odd while it is under way. Made even in a child of a parent that was at it.
    version: AtomicUsize,
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
}

// SAFETY: read and written as described at `Place`.
unsafe impl Sync for Place {}

static PLACES_OF_ACTIONS: [Place; PLACES] =
    [const { Place { version: AtomicUsize::new(0), action: UnsafeCell::new(MaybeUninit::zeroed()) } };
        PLACES];
static NEXT: AtomicUsize = AtomicUsize::new(0);
static CURRENT: AtomicUsize = AtomicUsize::new(0);
/// Our handler, as the kernel knows it. Set before `INSTALLED`.
static OURS: AtomicUsize = AtomicUsize::new(0);
/// Ours is installed in this process, or was in the one that it was forked from.
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The process whose action this is, where the system has no word as below. A child of vfork shares our memory, not our
/// actions.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The address of a word for the same that the kernel zeroes in a child with a memory of its own, however it was made.
static OWNERS_WORD: AtomicUsize = AtomicUsize::new(0);

pub fn is_handler(action: &libc::sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}

fn owner() -> &'static AtomicI32 {
    match OWNERS_WORD.load(Ordering::Acquire) {
        0 => &OWNER,
        // SAFETY: the word is ours and stays mapped.
        word => unsafe { &*ptr::with_exposed_provenance(word) },
    }
}

/// In the place of a number where a filter of system calls keeps us from asking for it.
const NOT_ASKED: i32 = -1;

fn own_number() -> i32 {
    match heap().os().process_number() {
        0 => NOT_ASKED,
        number => number as i32,
    }
}

pub fn owner_is_here() -> bool {
    if !INSTALLED.load(Ordering::Acquire) || heap().is_guest() {
        return false;
    }
    match owner().load(Ordering::Acquire) {
        // A child that was made without fork's handlers.
        0 => is_inherited(),
        owner => [owner, NOT_ASKED].contains(&own_number()),
    }
}

/// Whether the kernel may be asked about actions: no filter of system calls refuses it.
pub fn may_act() -> bool {
    heap().os().may_ask(libc::SYS_rt_sigaction)
}

/// Whether a new process has its parent's action with the kernel, which `clone3` can leave behind.
fn is_inherited() -> bool {
    if !may_act() {
        inherit();
        return true;
    }
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: fills the structure, which is valid when zeroed.
    let now = unsafe {
        __sigaction(libc::SIGSEGV, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    // A signal that the program ignores is ignored by the kernel.
    let inherited = [OURS.load(Ordering::Relaxed), current().sa_sigaction].contains(&now);
    if inherited {
        inherit();
    } else {
        INSTALLED.store(false, Ordering::Release);
    }
    inherited
}

/// The program's action.
pub fn current() -> libc::sigaction {
    loop {
        let place = &PLACES_OF_ACTIONS[CURRENT.load(Ordering::Acquire) % PLACES];
        let before = place.version.load(Ordering::Acquire);
        // SAFETY: a copy of plain numbers, thrown away where it was written over meanwhile.
        let copy = unsafe { place.action.get().read_volatile().assume_init() };
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && place.version.load(Ordering::Relaxed) == before {
            return copy;
        }
    }
}

/// Keeps the program's new action; returns the one before it.
pub fn exchange(new: &libc::sigaction) -> libc::sigaction {
    let (number, place, version) = claim();
    // SAFETY: the place is ours alone while its version is odd.
    unsafe { place.action.get().write(MaybeUninit::new(*new)) };
    // Not one more: a child of this process may have made it even before.
    place.version.store(version + 2, Ordering::Release);
    let old = current();
    CURRENT.store(number, Ordering::Release);
    old
}

/// A place that holds no current action and that nobody writes: its number, and its version before.
fn claim() -> (usize, &'static Place, usize) {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) + 1;
        let place = &PLACES_OF_ACTIONS[number % PLACES];
        let version = place.version.load(Ordering::Relaxed);
        if version.is_multiple_of(2)
            && number % PLACES != CURRENT.load(Ordering::Relaxed) % PLACES
            && place
                .version
                .compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            return (number, place, version);
        }
    }
}

/// Tells the kernel what holds now: our handler with the flags and the mask of the program's, so that the
/// program's runs as if the signal had come to it alone. Ignoring is left to the kernel, because programs
/// started from here inherit it.
pub fn install(program: &libc::sigaction) -> c_int {
    let mut action = *program;
    if action.sa_sigaction != libc::SIG_IGN {
        action.sa_flags = (action.sa_flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
        if !is_handler(program) {
            // A stack that is full has no place for a handler; a program without one does not mind another
            // stack. The end of the process may be a fault in our handler, which must not come to it.
            action.sa_flags = (action.sa_flags | libc::SA_ONSTACK) & !libc::SA_NODEFER;
        }
        action.sa_sigaction = OURS.load(Ordering::Relaxed);
    }
    // SAFETY: an action of ours.
    unsafe { __sigaction(libc::SIGSEGV, &action, ptr::null_mut()) }
}

/// Puts our handler before the program's, once.
pub fn take_over(ours: usize) {
    let mut program = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: fills the structure.
    if unsafe { __sigaction(libc::SIGSEGV, ptr::null(), program.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled.
    let program = unsafe { program.assume_init() };
    exchange(&program);
    if let Some(word) = heap().os().process_word() {
        OWNERS_WORD.store(word, Ordering::Release);
    }
    owner().store(own_number(), Ordering::Release);
    OURS.store(ours, Ordering::Relaxed);
    INSTALLED.store(true, Ordering::Release);
    install(&program);
}

/// In a forked child, which has copies of our actions and of the kernel's.
pub fn inherit() {
    if INSTALLED.load(Ordering::Relaxed) {
        // Threads that were writing stayed in the parent.
        for place in &PLACES_OF_ACTIONS {
            let version = place.version.load(Ordering::Relaxed);
            place.version.store(version.next_multiple_of(2), Ordering::Release);
        }
        owner().store(own_number(), Ordering::Release);
    }
}

/// The program's action is used up, or not to be waited for: from here on the signal has its default effect. False where the
/// kernel may not be told, or was not: then a fault while the signal is blocked has it.
pub fn reset() -> bool {
    // SAFETY: an action of defaults.
    unsafe {
        let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if owner_is_here() {
            exchange(&default);
        }
        may_act() && __sigaction(libc::SIGSEGV, &default, ptr::null_mut()) == 0
    }
}
