//! The janitor's thread: how it is made, what it is to the system, and its end.
//!
//! It inherits nothing from the thread that happens to make it but its place in the process: no signal mask,
//! no real-time policy, no binding to a CPU, and no descriptors. `threads` says when there is to be one.

use super::c::{Create, Pointer, Start, errno, set_errno};
#[cfg(shared)]
use super::next;
use super::{heap, moved};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
#[cfg(shared)]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU32, Ordering};
use vcmalloc_core::options::OptionId;
use vcmalloc_core::os::{Linux, Os, Wait};

/// Enough for a thread that only looks at tables; more where the program's thread-local storage needs it.
const STACK_BYTES: usize = 128 << 10;
#[cfg(shared)]
const MOST_CPUS: usize = 1024;
#[cfg(shared)]
const SET_WORDS: usize = MOST_CPUS / u64::BITS as usize;

/// The CPUs that the process was started with, a bit each: a program that binds a thread to some of them later does not
/// mean the janitor.
#[cfg(shared)]
static CPUS: [AtomicU64; SET_WORDS] = [const { AtomicU64::new(0) }; SET_WORDS];

/// Notes the CPUs, when the library is loaded.
#[cfg(shared)]
pub fn note_cpus() {
    let mut mask = [0; SET_WORDS];
    heap().os().cpus_of_main_thread(&mut mask);
    CPUS.iter().zip(mask).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
}

/// Settings that the janitor would inherit from the thread that makes it and must not have: a maker that polls at a real-time priority,
/// bound to a CPU, would keep it from that CPU for ever, with a lock in its hand.
#[derive(Default)]
pub struct Inherited {
    #[cfg(shared)]
    policy: bool,
    #[cfg(shared)]
    cpus: bool,
}

#[cfg(shared)]
impl Inherited {
    /// Looks at this thread with calls that any program makes. Most have nothing of the kind, and no call is made then that
    /// a filter may end the process for: systemd's `SystemCallFilter=~@resources` does for both. Nor is one made under a filter,
    /// which may have been there before us.
    pub fn here() -> Self {
        let os = heap().os();
        // Learnt in any case, since a filter that comes later and is not seen must not be taken for one that was there.
        let may_be_changed = os.has_no_unread_filter();
        let (policy, cpus) = (os.has_own_policy(), os.runs_elsewhere(&started_with()));
        Inherited { policy: policy && may_be_changed, cpus: cpus && may_be_changed }
    }

    /// Done by the maker, since the janitor may not get to run before.
    fn end(&self, thread: libc::pthread_t) {
        let os = heap().os();
        if let Some(set) =
            moved::pthread_setschedparam().filter(|_| self.policy && os.may_ask(libc::SYS_sched_setscheduler))
        {
            // SAFETY: the thread was made by this one just now, and nobody joins it but by its handle.
            unsafe { set(thread, libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 }) };
        }
        let Some(set) = next::set_affinity().filter(|_| self.cpus && os.may_ask(libc::SYS_sched_setaffinity))
        else {
            return;
        };
        // The system leaves out CPUs that are not in the process's cpuset; if that has none of these any more, all.
        for mask in [started_with(), [u64::MAX; SET_WORDS]] {
            // SAFETY: nobody joins the thread but by its handle; the mask is so long.
            if mask != [0; SET_WORDS] && unsafe { set(thread, size_of_val(&mask), mask.as_ptr()) } == 0 {
                return;
            }
        }
    }
}

#[cfg(not(shared))]
impl Inherited {
    fn here() -> Self {
        Inherited::default()
    }

    fn end(&self, _: libc::pthread_t) {}
}

#[cfg(shared)]
fn started_with() -> [u64; SET_WORDS] {
    CPUS.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// `inherited` where it is known already: a thread that reads it beside others has a descriptor in the program's table
/// meanwhile.
pub fn start_with(create: Create, inherited: Option<Inherited>) -> bool {
    if heap().is_guest() || !heap().claim_janitor() {
        return false;
    }
    let errno = errno();
    let started = with_signals_blocked(|| create_janitor(create, &inherited.unwrap_or_else(Inherited::here)));
    set_errno(errno);
    if !started {
        heap().unclaim_janitor();
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

fn create_janitor(create: Create, inherited: &Inherited) -> bool {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    BEGUN.store(0, Ordering::Relaxed);
    // SAFETY: the attributes are initialised before use; the thread's function is ours.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        if let Some(set_stack) = moved::pthread_attr_setstacksize() {
            set_stack(attributes.as_mut_ptr(), STACK_BYTES);
        }
        let made = create(thread.as_mut_ptr(), attributes.as_ptr(), janitor, ptr::null_mut()) == 0
            || create(thread.as_mut_ptr(), ptr::null(), janitor, ptr::null_mut()) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if made {
            let thread = thread.assume_init();
            inherited.end(thread);
            heap().note_janitor(thread as usize);
            wait_until_begun();
        }
        made
    }
}

/// Set by a janitor that has made the system calls of its beginning, libc's for a new thread among them.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Waits for the janitor's beginning: the program may install a filter for all of its threads next, which lets pass what its own
/// threads need, and these have begun. Not for ever: a janitor that gets no CPU must not keep the program.
fn wait_until_begun() {
    const ROUNDS: u32 = 100;
    const WAIT: u64 = 10_000_000;
    for _ in 0..ROUNDS {
        if BEGUN.load(Ordering::Acquire) != 0 {
            return;
        }
        heap().os().wait_for(&BEGUN, 0, WAIT);
    }
}

extern "C" fn janitor(_: *mut c_void) -> Pointer {
    if heap().os().may_ask(libc::SYS_prctl) {
        // SAFETY: the name is a C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"vcm-janitor".as_ptr()) };
    }
    let left = heap().os().leave_descriptors();
    BEGUN.store(1, Ordering::Release);
    Linux::wake_one(&BEGUN);
    heap().run_janitor(left);
    if heap().leave_janitor() {
        // Nobody waits for its end.
        if let Some(detach) = moved::pthread_detach() {
            // SAFETY: this thread, which nobody joins.
            unsafe { detach(libc::pthread_self()) };
        }
        heap().unclaim_janitor();
    }
    ptr::null_mut()
}

/// Ends the janitor's thread and waits for it; true if there was one. Not where a signal handler interrupted
/// work of this thread for whose locks the janitor may wait, nor in a child in its parent's memory, whose thread it is not.
pub fn stop() -> bool {
    if heap().is_guest() {
        return false;
    }
    heap().look_at_process();
    // SAFETY: asks for a number.
    let own = unsafe { libc::pthread_self() };
    let (Some(join), false) = (moved::pthread_join(), heap().is_inside()) else { return false };
    let Some(thread) = heap().take_janitor(own as usize) else { return false };
    heap().stop_janitor();
    without_cancellation(|| {
        // SAFETY: we are the only one who was given the handle of a thread that nobody detached.
        unsafe { join(thread as libc::pthread_t, ptr::null_mut()) };
    });
    heap().unclaim_janitor();
    true
}

/// To wait for a thread is a place where the waiting one can be cancelled.
fn without_cancellation(act: impl FnOnce()) {
    const DISABLE: c_int = 1;
    let mut before = 0;
    let set = moved::pthread_setcancelstate();
    // SAFETY: changes the state of this thread, and back.
    unsafe {
        if let Some(set) = set {
            set(DISABLE, &mut before);
        }
        act();
        if let Some(set) = set {
            set(before, ptr::null_mut());
        }
    }
}

/// Starts the janitor's thread in programs that link the static library; 0, or 1 if it runs or is switched
/// off.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_janitor_start() -> c_int {
    if heap().is_guest() {
        return 1;
    }
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
    c_int::from(!start_with(create, None))
}

/// If the option `janitor` is off its thread has ended when this returns; true then.
pub fn end_if_off() -> bool {
    let is_off = heap().options.get(OptionId::janitor) == 0;
    if is_off && !stop() {
        heap().stop_janitor();
    }
    is_off
}
