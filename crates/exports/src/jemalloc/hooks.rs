//! The extent hooks of arenas. Memory comes from one map, and no hook is ever called. So hooks are refused, but for those of a
//! program that only leaves an arena out of core files: the table that was read, with a function of its own for `alloc`. With
//! dump_heaps=off the arena is left out in any case.

use super::say::say;
use crate::heap;
use core::ffi::c_void;
use vcmalloc_core::options::OptionId;

const HOOKS: usize = 9;
type Words = [usize; HOOKS];

#[repr(transparent)]
struct Table([*const (); HOOKS]);
// SAFETY: addresses of functions, which nobody changes.
unsafe impl Sync for Table {}

extern "C" fn gives_nothing() -> *mut c_void {
    core::ptr::null_mut()
}

/// True: it was not done.
extern "C" fn does_nothing() -> bool {
    true
}

/// The table that is read: functions, so that one is not taken for hooks of a program that leaves the others null.
static OWN: Table = {
    const NOT_DONE: *const () = does_nothing as *const ();
    let mut words = [NOT_DONE; HOOKS];
    words[0] = gives_nothing as *const ();
    Table(words)
};

/// The address of the table of an arena that has no other.
pub fn own() -> usize {
    core::ptr::from_ref(&OWN).expose_provenance()
}

/// Whether a table may be set for an arena; the process's own (0) is in core files. Says it on stderr where not.
pub fn are_taken(hooks: *const c_void, number: usize) -> bool {
    if hooks.addr() == own() {
        return true;
    }
    if number == 0 || heap().options.is_on(OptionId::dump_heaps) {
        say(&[
            b"extent hooks are refused: memory comes from one map for all arenas; VCM_DUMP_HEAPS=off leaves arenas but 0 out of core files without hooks",
        ]);
        return false;
    }
    // SAFETY: the program says that its hooks are there.
    let words = if hooks.is_null() { [0; HOOKS] } else { unsafe { hooks.cast::<Words>().read_unaligned() } };
    let replaces_alloc_only = words.iter().zip(&OWN.0).skip(1).all(|(word, own)| *word == own.addr());
    if !replaces_alloc_only {
        say(&[
            b"extent hooks are refused: memory comes from one map for all arenas; VCM_DUMP_HEAPS=off takes a table that was read, with another alloc",
        ]);
    }
    replaces_alloc_only
}
