//! Stacks by the unwinder of libgcc_s, where the process has it.

use super::malloc::Pointer;
use core::ffi::CStr;
#[cfg(not(feature = "shared"))]
use core::ffi::{c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

unsafe extern "C" {
    /// unwind.c.
    fn vcm_unwind(backtrace: Pointer, get_ip: Pointer, frames: *mut usize, most: usize) -> usize;
}

/// The unwinder that was found for a profile; null: the one that the process was started with, if any.
static BACKTRACE: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(ptr::null_mut());
static GET_IP: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(ptr::null_mut());

/// The C library is ready. Before, the unwinder of a static program ends it: it cannot find the program's
/// tables yet.
static READY: AtomicBool = AtomicBool::new(false);

/// Called when the library is loaded, which in a static program comes after the C library's own start.
pub fn ready() {
    READY.store(true, Ordering::Relaxed);
}

/// Return addresses of this thread's calls outside this library, innermost first; returns how many. None
/// before the C library is ready.
pub fn stack(frames: &mut [usize]) -> usize {
    if !READY.load(Ordering::Relaxed) {
        return 0;
    }
    // Acquire pairs with the Release in `find`: the second is there if the first is.
    let backtrace = BACKTRACE.load(Ordering::Acquire);
    // SAFETY: writes at most as many frames as there are.
    unsafe { vcm_unwind(backtrace, GET_IP.load(Ordering::Relaxed), frames.as_mut_ptr(), frames.len()) }
}

#[cfg(feature = "shared")]
unsafe fn load(name: &CStr) -> Pointer {
    // SAFETY: by the caller's promise.
    unsafe { super::loader::dlopen(name.as_ptr(), libc::RTLD_LAZY) }
}

/// By its name: linked, it would have the linker warn about every program that is static throughout. Those
/// have none.
#[cfg(not(feature = "shared"))]
unsafe fn load(name: &CStr) -> Pointer {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> Pointer;
    let open = super::moved::find(libc::RTLD_DEFAULT, c"dlopen");
    if open.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: libc's function of this name, and the caller's promise.
    unsafe { core::mem::transmute::<Pointer, Open>(open)(name.as_ptr(), libc::RTLD_LAZY) }
}

/// Finds the unwinder of this process, and loads it if need be: who asks for a profile wants stacks. Never
/// called inside malloc, for it takes the dynamic linker's lock.
pub fn find() {
    // SAFETY: loads a library of the compiler's.
    unsafe {
        let library = load(c"libgcc_s.so.1");
        if library.is_null() || !BACKTRACE.load(Ordering::Relaxed).is_null() {
            return;
        }
        let backtrace = super::moved::find(library, c"_Unwind_Backtrace");
        let get_ip = super::moved::find(library, c"_Unwind_GetIP");
        if !backtrace.is_null() && !get_ip.is_null() {
            GET_IP.store(get_ip, Ordering::Relaxed);
            BACKTRACE.store(backtrace, Ordering::Release);
        }
    }
}
