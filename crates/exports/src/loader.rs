//! Plugins that are to be bound to their own libraries first (`RTLD_DEEPBIND`).
//!
//! Such a plugin finds malloc where its own libraries lead to, in the C library, while the rest of the process calls
//! ours, and each would free what the other made. So before the first of them is loaded, the entries of malloc's family
//! in the C library's table of symbols are made to lead to ours, and those of operators new and delete in the C++
//! library's: a plugin bound from then on finds one heap, and everything else as it asked for. If the system does not
//! let us write there, the flag is taken away, and the plugin is bound like any other.
//!
//! The shared library's `dlopen` comes first. It is left by a jump, not by a call: libc looks at the return address to
//! know who asks, and searches where that object's RUNPATH says.

use super::c::{Pointer, undisturbed};
use super::heap;
use super::lookup::{self, Object};
use super::next::DLOPEN;
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use vcmalloc_core::os::Os;

type Open = unsafe extern "C" fn(*const c_char, c_int) -> Pointer;

/// # Safety
/// As libc's function of this name.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> Pointer {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "test esi, {deep}",
        "jz 2f",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {flags_left}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "and esi, eax",
        "2:",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz {early}",
        "jmp rax",
        ".cfi_endproc",
        deep = const libc::RTLD_DEEPBIND,
        flags_left = sym flags_left,
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
        "tst w1, #{deep}",
        "b.eq 2f",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {flags_left}",
        "mov w2, w0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "and w1, w1, w2",
        "2:",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, {early}",
        "br x16",
        deep = const libc::RTLD_DEEPBIND,
        flags_left = sym flags_left,
        // The address found is the first field.
        next = sym DLOPEN,
        early = sym open_early,
    )
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

const UNKNOWN: u32 = 0;
/// They lead to ours, or to the program's own malloc as ever.
const SETTLED: u32 = 1;
const REFUSED: u32 = 2;

/// The state of the libraries' tables, as far as it is known.
static NAMES: AtomicU32 = AtomicU32::new(UNKNOWN);

/// The flags that may stay of those of a dlopen with `RTLD_DEEPBIND`.
extern "C" fn flags_left() -> c_int {
    if NAMES.load(Ordering::Acquire) == UNKNOWN {
        undisturbed(|| heap().export(settle));
    }
    if NAMES.load(Ordering::Relaxed) == REFUSED { !libc::RTLD_DEEPBIND } else { !0 }
}

fn settle() {
    if NAMES.load(Ordering::Relaxed) == UNKNOWN {
        let names = if lead_to_ours() { SETTLED } else { REFUSED };
        if names == REFUSED {
            heap().os().write(2, REFUSAL);
        }
        // Release pairs with the Acquire in `flags_left`: a thread that finds them settled finds them in the tables.
        NAMES.store(names, Ordering::Release);
    }
}

const REFUSAL: &[u8] =
    b"vcmalloc: the names in the C library cannot be made to lead here: plugins that ask for RTLD_DEEPBIND \
are loaded without it\n";

const OF_C: [&CStr; 19] = [
    c"malloc",
    c"free",
    c"calloc",
    c"realloc",
    c"reallocarray",
    c"memalign",
    c"aligned_alloc",
    c"posix_memalign",
    c"valloc",
    c"pvalloc",
    c"malloc_usable_size",
    c"free_sized",
    c"free_aligned_sized",
    c"mallinfo",
    c"mallinfo2",
    c"mallopt",
    c"malloc_trim",
    c"malloc_stats",
    c"malloc_info",
];

const OF_CXX: [&CStr; 20] = [
    c"_Znwm",
    c"_Znam",
    c"_ZnwmRKSt9nothrow_t",
    c"_ZnamRKSt9nothrow_t",
    c"_ZnwmSt11align_val_t",
    c"_ZnamSt11align_val_t",
    c"_ZnwmSt11align_val_tRKSt9nothrow_t",
    c"_ZnamSt11align_val_tRKSt9nothrow_t",
    c"_ZdlPv",
    c"_ZdaPv",
    c"_ZdlPvm",
    c"_ZdaPvm",
    c"_ZdlPvRKSt9nothrow_t",
    c"_ZdaPvRKSt9nothrow_t",
    c"_ZdlPvSt11align_val_t",
    c"_ZdaPvSt11align_val_t",
    c"_ZdlPvmSt11align_val_t",
    c"_ZdaPvmSt11align_val_t",
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
];

/// An entry of another library's table, and what it is to say.
#[derive(Clone, Copy)]
struct Lead {
    entry: usize,
    value: usize,
}

/// All of them, or none: a plugin must not have our malloc and another's free.
fn lead_to_ours() -> bool {
    let here = lead_to_ours as *const () as usize;
    let Some(ours) = lookup::holding(here) else { return false };
    if lookup::defining(c"malloc", 0).is_none_or(|first| first.base != ours.base) {
        // The program has a malloc of its own, or this library came late: its heap is not the process's.
        return true;
    }
    let mut leads = [Lead { entry: 0, value: 0 }; OF_C.len() + OF_CXX.len()];
    let mut places = leads.iter_mut();
    let mut whole = true;
    for (names, first) in [(&OF_C[..], c"malloc"), (&OF_CXX[..], c"_Znwm")] {
        // Without a C++ library there is none to be bound to.
        let Some(theirs) = lookup::defining(first, here) else { continue };
        let leads = names.iter().filter_map(|name| lead(&ours, &theirs, name));
        for (lead, place) in leads.zip(&mut places) {
            whole &= theirs.flags_at(lead.entry) == Some(libc::PF_R);
            *place = lead;
        }
    }
    whole && rewrite(&leads)
}

fn lead(ours: &Object, theirs: &Object, name: &CStr) -> Option<Lead> {
    let own = Some(ours.function(name)).filter(|own| *own != 0)?;
    Some(Lead { entry: theirs.value_of(name)?, value: own.wrapping_sub(theirs.base) })
}

fn rewrite(leads: &[Lead]) -> bool {
    let leads = || leads.iter().filter(|lead| lead.entry != 0);
    let opened = leads().all(|lead| protect(lead.entry, libc::PROT_READ | libc::PROT_WRITE));
    if opened {
        for lead in leads() {
            // SAFETY: a word of a table that the dynamic linker only reads, as a whole.
            let entry = unsafe { AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(lead.entry)) };
            entry.store(lead.value, Ordering::Release);
        }
    }
    leads().for_each(|lead| _ = protect(lead.entry, libc::PROT_READ));
    opened
}

/// Changes what may be done with the page that an entry lies in.
fn protect(entry: usize, protection: c_int) -> bool {
    let page = heap().os().page_bytes();
    let start = ptr::with_exposed_provenance_mut(entry & !(page - 1));
    // SAFETY: the page holds tables that are read; that stays allowed.
    unsafe { libc::mprotect(start, page, protection) == 0 }
}
