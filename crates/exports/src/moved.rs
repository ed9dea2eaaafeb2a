//! Functions that glibc moved into libc.so.6 and gave new versions: from libdl and libpthread, in 2.32 and
//! 2.34.
//!
//! Their old versions exist in every glibc, so those are what the shared library asks for; a reference to a
//! new version would keep it from being loaded on Debian 11 at all. The references are weak: before 2.34 a
//! program that loads neither libdl nor libpthread has no such function, and `None` says so. Names are then
//! looked up without dlsym.

use super::c::Pointer;
use core::ffi::{c_char, c_int, c_void};

#[cfg(any(shared, jemalloc))]
type Destructor = extern "C" fn(Pointer);

macro_rules! moved {
    ($( $name:ident: $signature:ty; )+) => { $(
        #[cfg(shared)]
        #[inline(never)]
        pub fn $name() -> Option<$signature> {
            let found: *const c_void;
            // SAFETY: reads our own global offset table; a weak name that nobody defines has address 0 there.
            // The type is that of libc's function, and a null pointer is None.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!(
                    concat!(".weak vcm_moved_", stringify!($name)),
                    concat!(".symver vcm_moved_", stringify!($name), ", ", stringify!($name), "@GLIBC_2.2.5"),
                    concat!("mov {}, [rip + vcm_moved_", stringify!($name), "@GOTPCREL]"),
                    out(reg) found, options(nostack, preserves_flags, readonly)
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!(
                    concat!(".weak vcm_moved_", stringify!($name)),
                    concat!(".symver vcm_moved_", stringify!($name), ", ", stringify!($name), "@GLIBC_2.17"),
                    concat!("adrp {0}, :got:vcm_moved_", stringify!($name)),
                    concat!("ldr {0}, [{0}, :got_lo12:vcm_moved_", stringify!($name), "]"),
                    out(reg) found, options(nostack, preserves_flags, readonly)
                );
                core::mem::transmute(found)
            }
        }

        #[cfg(not(shared))]
        pub fn $name() -> Option<$signature> {
            unsafe extern "C" {
                fn $name();
            }
            // SAFETY: the type is that of libc's function.
            unsafe { core::mem::transmute($name as *const c_void) }
        }
    )+ };
}

moved! {
    pthread_attr_setstacksize: unsafe extern "C" fn(*mut libc::pthread_attr_t, usize) -> c_int;
    dlsym: unsafe extern "C" fn(Pointer, *const c_char) -> Pointer;
    dladdr: unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
    pthread_join: unsafe extern "C" fn(libc::pthread_t, *mut Pointer) -> c_int;
    pthread_setcancelstate: unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    pthread_detach: unsafe extern "C" fn(libc::pthread_t) -> c_int;
    pthread_sigmask: unsafe extern "C" fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int;
}

#[cfg(shared)]
moved! {
    pthread_setschedparam: unsafe extern "C" fn(libc::pthread_t, c_int, *const libc::sched_param) -> c_int;
}

#[cfg(any(shared, jemalloc))]
moved! {
    pthread_key_create: unsafe extern "C" fn(*mut libc::pthread_key_t, Option<Destructor>) -> c_int;
    pthread_setspecific: unsafe extern "C" fn(libc::pthread_key_t, *const c_void) -> c_int;
}

/// The address that a name stands for in the objects after this one, or in all (`RTLD_NEXT`, `RTLD_DEFAULT`).
pub fn find(where_to_look: Pointer, name: &core::ffi::CStr) -> Pointer {
    match dlsym() {
        // SAFETY: looks a name up.
        Some(dlsym) => unsafe { dlsym(where_to_look, name.as_ptr()) },
        #[cfg(shared)]
        None => {
            let own = if where_to_look == libc::RTLD_NEXT { find as *const () as usize } else { 0 };
            super::lookup::function(name, own)
        }

        #[cfg(not(shared))]
        None => core::ptr::null_mut(),
    }
}

/// For new_handler.cc.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn vcm_find(name: *const c_char) -> Pointer {
    // SAFETY: by the caller's promise.
    find(libc::RTLD_DEFAULT, unsafe { core::ffi::CStr::from_ptr(name) })
}
