//! The library's own search for names, which it needs on a glibc before 2.34 only: here it must find what
//! dlsym finds.

/// The part of its library that the searched module uses.
mod c {
    pub type Pointer = *mut core::ffi::c_void;
    pub fn pointer(address: usize) -> Pointer {
        core::ptr::with_exposed_provenance_mut(address)
    }
}
#[path = "../crates/exports/src/lookup.rs"]
#[allow(unexpected_cfgs, reason = "the kinds of libraries are set by their build")]
mod lookup;

use std::ffi::CStr;

fn by_dlsym(name: &CStr) -> c::Pointer {
    // SAFETY: looks a name up.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

#[test]
fn functions_are_found_where_dlsym_finds_them() {
    for name in
        [c"pthread_create", c"pthread_exit", c"unshare", c"setns", c"dlopen", c"qsort", c"abort", c"getenv"]
    {
        let found = lookup::function(name, 0);
        assert!(!found.is_null() && found == by_dlsym(name), "{name:?}: {found:?}, not {:?}", by_dlsym(name));
    }
}

#[test]
fn what_nobody_defines_is_null() {
    for name in [c"", c"no_such_function_anywhere", c"pthread_creat", c"environ"] {
        assert!(lookup::function(name, 0).is_null(), "{name:?}");
    }
}

#[test]
fn the_object_that_asks_is_passed_over() {
    let libc_holds = by_dlsym(c"qsort") as usize;
    assert!(lookup::function(c"qsort", libc_holds).is_null(), "no other object has it");
    let own = functions_are_found_where_dlsym_finds_them as *const () as usize;
    assert_eq!(lookup::function(c"qsort", own), by_dlsym(c"qsort"));
}

#[test]
fn a_function_is_found_beside_an_address_in_the_object_that_defines_it_alone() {
    let (in_libc, here) =
        (by_dlsym(c"qsort") as usize, functions_are_found_where_dlsym_finds_them as *const ());
    assert_eq!(lookup::function_beside(in_libc, c"getenv"), by_dlsym(c"getenv"));
    // This program refers to it.
    assert!(lookup::function_beside(here as usize, c"getenv").is_null());
    assert!(lookup::function_beside(0, c"getenv").is_null(), "no object is there");
}
