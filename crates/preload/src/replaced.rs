//! Programs that replace only some of the operators new and delete.
//!
//! The standard says what the other forms then do ([new.delete] in C++17): each calls the next simpler form, and so in
//! the end the program's own. Ours stand before the C++ library's, so ours must do it. Owns the addresses of the
//! program's forms, looked up once; promises one comparison where a program replaced none.

use super::malloc::Pointer;
use super::moved;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

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
const NONE: u32 = 1;
const SOME: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
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
    // Not `malloc` or another name that callers know: the address of such a name may be the program's own.
    let own = object_of(look as *const () as Pointer);
    let found = |name: &CStr| moved::find(libc::RTLD_DEFAULT, name);
    let mut any = false;
    // A library that came late stands behind the C++ library: nobody calls our forms by their names.
    if object_of(found(c"vcm_version")) == own {
        for (name, theirs) in NAMES.iter().zip(&THEIRS) {
            let form = found(name);
            if !form.is_null() && object_of(form) != own {
                theirs.store(form, Ordering::Relaxed);
                any = true;
            }
        }
    }
    STATE.store(if any { SOME } else { NONE }, Ordering::Release);
}

/// Where the program or library begins that holds an address; null where none does.
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
