//! Plugins that are to be bound to their own libraries first (`RTLD_DEEPBIND`).
//!
//! Such a plugin would call the C library's malloc while the rest of the process calls ours, and each would
//! free what the other made. The shared library's `dlopen` comes first and takes that flag away: the plugin
//! is bound like any other. It is left by a jump, not by a call: libc looks at the return address to know who
//! asks, and searches where that object's RUNPATH says. Sits on `next` of the janitor, which knows libc's
//! function.

use super::janitor::next::DLOPEN;
use super::malloc::Pointer;
use core::ffi::{c_char, c_int};

type Open = unsafe extern "C" fn(*const c_char, c_int) -> Pointer;

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Pointer {
    core::arch::naked_asm!(
        "and esi, {others}",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz {early}",
        "jmp rax",
        others = const !libc::RTLD_DEEPBIND,
        // The address found is the first field.
        next = sym DLOPEN,
        early = sym open_early,
    )
}

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Pointer {
    core::arch::naked_asm!(
        "and w1, w1, #{others}",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, {early}",
        "br x16",
        others = const !libc::RTLD_DEEPBIND,
        // The address found is the first field.
        next = sym DLOPEN,
        early = sym open_early,
    )
}

/// On other machines libc takes us for the one who asks: a plugin's RUNPATH is not searched.
///
/// # Safety
/// As libc's function of this name.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Pointer {
    // SAFETY: by the caller's promise.
    unsafe { open_early(file, flags & !libc::RTLD_DEEPBIND) }
}

/// For calls before the library is ready: libc takes us for the one who asks.
unsafe extern "C" fn open_early(file: *const c_char, flags: c_int) -> Pointer {
    // SAFETY: the type is that of libc's function; a null pointer is None.
    match unsafe { core::mem::transmute::<Pointer, Option<Open>>(DLOPEN.find()) } {
        // SAFETY: by the caller's promise.
        Some(open) => unsafe { open(file, flags) },
        None => core::ptr::null_mut(),
    }
}
