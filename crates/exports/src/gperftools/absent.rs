//! Parts of gperftools that are not here. Programs that call them start and run, and are told once.
//!
//! The CPU profiler is another library (libprofiler.so.0): if the process has it, calls are passed on.

use super::say::Once;
use super::theirs;
use crate::c::{Name, Pointer};
use crate::moved;
use core::ffi::{CStr, c_int, c_void};

fn next<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<Pointer>()) };
    let found = moved::find(libc::RTLD_NEXT, name);
    // SAFETY: libprofiler's function of this name has this type; the sizes are those of pointers.
    (!found.is_null()).then(|| unsafe { core::mem::transmute_copy(&found) })
}

const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

static NO_PROFILER: Once = Once::new();

/// 0 is what the interface says where no profile is taken.
fn no_cpu_profiler() -> c_int {
    NO_PROFILER
        .say(&["there is no CPU profiler in this library, calls of Profiler* do nothing; use 'perf record'"]);
    0
}

macro_rules! cpu_profiler {
    ($( $function:ident($( $argument:ident: $kind:ty ),*) -> $result:ty = $otherwise:expr; )+) => { $(
        /// # Safety
        /// As libprofiler's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function($( $argument: $kind ),*) -> $result {
            const NAME: &CStr = c_name(concat!(stringify!($function), "\0"));
            match next::<unsafe extern "C" fn($( $kind ),*) -> $result>(NAME) {
                // SAFETY: by the caller's promise.
                Some(next) => unsafe { next($( $argument ),*) },
                None => $otherwise,
            }
        }
    )+ };
}

cpu_profiler! {
    ProfilerStart(_file: Name) -> c_int = no_cpu_profiler();
    ProfilerStartWithOptions(_file: Name, _options: *const c_void) -> c_int = no_cpu_profiler();
    ProfilerEnable() -> () = _ = no_cpu_profiler();
    // Without a start these have nothing to do, and say nothing.
    ProfilerStop() -> () = ();
    ProfilerFlush() -> () = ();
    ProfilerDisable() -> () = ();
    ProfilerRegisterThread() -> () = ();
    ProfilingIsEnabledForAllThreads() -> c_int = 0;
    // The stack of a signal's context; no frames.
    ProfilerGetStackTrace(_result: *mut Pointer, _depth: c_int, _skip: c_int, _context: *const c_void) -> c_int = 0;
    // Not enabled, no name, no samples.
    ProfilerGetCurrentState(state: *mut ProfilerState) -> () = {
        // SAFETY: the caller passes a state to be written.
        unsafe { state.write_bytes(0, 1) }
    };
}

/// As in gperftools' profiler.h.
#[repr(C)]
pub struct ProfilerState {
    enabled: c_int,
    start_time: libc::time_t,
    profile_name: [u8; 1024],
    samples_gathered: c_int,
}

static NO_HOOKS: Once = Once::new();

/// A hook would have to be called from the fast path. 0 is what the interface says where a hook was not
/// taken.
fn refused() -> c_int {
    NO_HOOKS.say(&[
        "MallocHook is not in this library: the hook was not added; a heap profile or perf can tell instead",
    ]);
    0
}

/// gperftools' own library, where it was loaded beside ours, ends the process if it cannot remove its own hooks, and
/// means its own list by it: it gets its own function.
fn refused_unless_theirs(hook: Hook, name: &CStr) -> c_int {
    match theirs::function(hook, name) {
        // SAFETY: gperftools' function of this name has this type.
        Some(own) => unsafe { core::mem::transmute::<Pointer, extern "C" fn(Hook) -> c_int>(own)(hook) },
        None => refused(),
    }
}

type Hook = *mut c_void;

macro_rules! hooks {
    ($( $function:ident )+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $function(hook: Hook) -> c_int {
            const NAME: &CStr = c_name(concat!(stringify!($function), "\0"));
            refused_unless_theirs(hook, NAME)
        }
    )+ };
}

hooks! {
    MallocHook_AddNewHook MallocHook_AddDeleteHook MallocHook_AddPreMmapHook MallocHook_AddMmapHook
    MallocHook_AddMunmapHook MallocHook_AddMremapHook MallocHook_AddPreSbrkHook MallocHook_AddSbrkHook
    MallocHook_RemoveNewHook MallocHook_RemoveDeleteHook MallocHook_RemovePreMmapHook MallocHook_RemoveMmapHook
    MallocHook_RemoveMunmapHook MallocHook_RemoveMremapHook MallocHook_RemovePreSbrkHook MallocHook_RemoveSbrkHook
    MallocHook_SetMmapReplacement MallocHook_RemoveMmapReplacement
    MallocHook_SetMunmapReplacement MallocHook_RemoveMunmapReplacement
}

macro_rules! old_hooks {
    ($( $function:ident )+) => { $(
        /// Returns the hook before, of which there never is one.
        #[unsafe(no_mangle)]
        pub extern "C" fn $function(hook: Hook) -> Hook {
            if !hook.is_null() {
                refused();
            }
            core::ptr::null_mut()
        }
    )+ };
}

old_hooks! {
    MallocHook_SetNewHook MallocHook_SetDeleteHook MallocHook_SetPreMmapHook MallocHook_SetMmapHook
    MallocHook_SetMunmapHook MallocHook_SetMremapHook MallocHook_SetPreSbrkHook MallocHook_SetSbrkHook
}

/// libc's own mmap: there are no hooks that it could be without.
///
/// # Safety
/// As mmap.
#[unsafe(export_name = "_ZN10MallocHook12UnhookedMMapEPvmiiil")]
pub unsafe extern "C" fn unhooked_mmap(
    start: Pointer,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: libc::off_t,
) -> Pointer {
    // SAFETY: by the caller's promise.
    unsafe { libc::mmap(start, length, protection, flags, descriptor, offset) }
}

/// # Safety
/// As munmap.
#[unsafe(export_name = "_ZN10MallocHook14UnhookedMUnmapEPvm")]
pub unsafe extern "C" fn unhooked_munmap(start: Pointer, length: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { libc::munmap(start, length) }
}

/// No hook is ever called, so no hook has a caller.
#[unsafe(no_mangle)]
pub extern "C" fn MallocHook_GetCallerStackTrace(_: *mut Pointer, _: c_int, _: c_int) -> c_int {
    0
}

/// The leak checker as gperftools has it where HEAPCHECK is not set: inactive, and finding nothing.
mod leak_checker {
    use super::{Hook, Name, Pointer, c_int};

    macro_rules! inactive {
        ($( $mangled:literal $name:ident($( $kind:ty ),*) -> $result:ty = $value:expr; )+) => { $(
            #[unsafe(export_name = $mangled)]
            extern "C" fn $name($( _: $kind ),*) -> $result {
                $value
            }
        )+ };
    }

    inactive! {
        "_ZN15HeapLeakChecker8IsActiveEv" is_active() -> bool = false;
        "_ZN15HeapLeakChecker13GlobalCheckerEv" global_checker() -> Pointer = core::ptr::null_mut();
        "_ZN15HeapLeakChecker13NoGlobalLeaksEv" no_global_leaks() -> bool = true;
        "_ZN15HeapLeakChecker17CancelGlobalCheckEv" cancel_global_check() -> () = ();
        "_ZN15HeapLeakCheckerC1EPKc" begins(Pointer, Name) -> () = ();
        "_ZN15HeapLeakCheckerC2EPKc" base_begins(Pointer, Name) -> () = ();
        "_ZN15HeapLeakCheckerD1Ev" ends(Pointer) -> () = ();
        "_ZN15HeapLeakCheckerD2Ev" base_ends(Pointer) -> () = ();
        "_ZN15HeapLeakChecker9DoNoLeaksENS_15ShouldSymbolizeE" no_leaks(Pointer, c_int) -> bool = true;
        "_ZNK15HeapLeakChecker11BytesLeakedEv" bytes_leaked(Pointer) -> isize = 0;
        "_ZNK15HeapLeakChecker13ObjectsLeakedEv" objects_leaked(Pointer) -> isize = 0;
        "_ZN15HeapLeakChecker14DoIgnoreObjectEPKv" ignore_object(Pointer) -> () = ();
        "_ZN15HeapLeakChecker14UnIgnoreObjectEPKv" unignore_object(Pointer) -> () = ();
        "_ZN15HeapLeakChecker8DisablerC1Ev" disabler_begins(Pointer) -> () = ();
        "_ZN15HeapLeakChecker8DisablerC2Ev" disabler_base_begins(Pointer) -> () = ();
        "_ZN15HeapLeakChecker8DisablerD1Ev" disabler_ends(Pointer) -> () = ();
        "_ZN15HeapLeakChecker8DisablerD2Ev" disabler_base_ends(Pointer) -> () = ();
        "_ZN11HeapCleanerC1EPFvvE" cleaner_begins(Pointer, Hook) -> () = ();
        "_ZN11HeapCleanerC2EPFvvE" cleaner_base_begins(Pointer, Hook) -> () = ();
        "_ZN11HeapCleaner15RunHeapCleanupsEv" run_cleanups() -> () = ();
    }
}
