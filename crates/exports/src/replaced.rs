//! Programs that replace only some of the operators new and delete.
//!
//! The standard says what the other forms then do ([new.delete] in C++17): each calls the next simpler form,
//! and so in the end the program's own. Ours stand before the C++ library's, so ours must do it. Owns the
//! addresses of the program's forms, looked up once; promises one comparison where a program replaced none.

use super::c::Pointer;
#[cfg(shared)]
use super::moved;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
#[cfg(shared)]
use core::{ffi::CStr, mem::MaybeUninit};

/// The forms that others fall back to.
#[derive(Clone, Copy)]
pub enum Simpler {
    New,
    NewArray,
    AlignedNew,
    AlignedNewArray,
    Delete,
    DeleteArray,
    AlignedDelete,
    AlignedDeleteArray,
}

const FORMS: usize = 8;
#[cfg(shared)]
const NAMES: [&CStr; FORMS] = [
    c"_Znwm",
    c"_Znam",
    c"_ZnwmSt11align_val_t",
    c"_ZnamSt11align_val_t",
    c"_ZdlPv",
    c"_ZdaPv",
    c"_ZdlPvSt11align_val_t",
    c"_ZdaPvSt11align_val_t",
];

const UNKNOWN: u32 = 0;
pub const NONE: u32 = 1;
const SOME: u32 = 2;

pub static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
/// The program's, where it is not ours.
static THEIRS: [AtomicPtr<c_void>; FORMS] = [const { AtomicPtr::new(ptr::null_mut()) }; FORMS];

/// True unless it is known that the program replaced none: then `theirs` says more.
#[inline(always)]
pub fn may_be() -> bool {
    STATE.load(Ordering::Relaxed) != NONE
}

/// The first of `chain` that the program replaced.
pub fn theirs(chain: &[Simpler]) -> Option<Pointer> {
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        look();
    }
    let replaced = |form: &Simpler| THEIRS.get(*form as usize).map(|theirs| theirs.load(Ordering::Relaxed));
    chain.iter().filter_map(replaced).find(|theirs| !theirs.is_null())
}

/// Looks the program's forms up: when the library is loaded, or at the first call that comes before.
pub fn look() {
    let mut any = false;
    found(|form, theirs| {
        if let Some(place) = THEIRS.get(form) {
            place.store(theirs, Ordering::Relaxed);
            any = true;
        }
    });
    STATE.store(if any { SOME } else { NONE }, Ordering::Release);
}

/// The linker has put the program's forms in place of our weak ones.
#[cfg(not(shared))]
fn found(mut take: impl FnMut(usize, Pointer)) {
    unsafe extern "C" {
        /// operators.S: the function that each form became, and ours. A table, because the compiler holds
        /// two names for two things.
        static vcm_forms: [[Pointer; 2]; FORMS];
    }
    for form in 0..FORMS {
        // SAFETY: the table has so many entries, and nobody writes to it.
        let [linked, ours] =
            unsafe { (&raw const vcm_forms).cast::<[Pointer; 2]>().add(form).read_volatile() };
        if linked != ours {
            take(form, linked);
        }
    }
}

#[cfg(shared)]
fn found(mut take: impl FnMut(usize, Pointer)) {
    // Not `malloc` or another name that callers know: the address of such a name may be the program's own.
    let own = object_of(look as *const () as Pointer);
    let first = |name: &CStr| moved::find(libc::RTLD_DEFAULT, name);
    // A library that came late stands behind the C++ library: nobody calls our forms by their names.
    if object_of(first(c"vcm_version")) == own {
        for (form, name) in NAMES.iter().enumerate() {
            let theirs = first(name);
            if !theirs.is_null() && object_of(theirs) != own {
                take(form, theirs);
            }
        }
    }
}

/// The start of the program or library that holds an address; null if none does.
#[cfg(shared)]
fn object_of(address: Pointer) -> Pointer {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the call fills `info`, which is valid when zeroed.
    unsafe {
        if let Some(dladdr) = moved::dladdr() {
            dladdr(address, info.as_mut_ptr());
        }
        info.assume_init().dli_fbase
    }
}
