//! gperftools' own library in the process, because a plugin needs it, or because it came by dlopen.
//!
//! Its functions are never called, ours come first; but its constructors run, and register an extension of
//! the heap that nobody uses.

use crate::c::{Pointer, address};
use crate::lookup::function_beside;
use core::ffi::CStr;

/// The function of such a library, where an address lies in one.
pub fn function(place: Pointer, name: &CStr) -> Option<Pointer> {
    let found = if owns(place) { function_beside(address(place), name) } else { core::ptr::null_mut() };
    (!found.is_null()).then_some(found)
}

/// Whether an address lies in such a library. A program's or a plugin's own code does not.
pub fn owns(place: Pointer) -> bool {
    let has = |name| !function_beside(address(place), name).is_null();
    !place.is_null() && has(c"tc_version") && !has(c"vcm_version")
}
