//! jemalloc's names with the prefix. Hidden: a library into which this crate is linked keeps them for itself, since a second copy
//! in the process has a heap of its own.

use crate::c::{Name, Pointer};
use crate::jemalloc::{self, Message};
use crate::malloc as family;
use core::ffi::{c_int, c_void};

macro_rules! prefixed {
    ($( $name:literal $rust:ident($( $argument:ident: $kind:ty ),*) $( -> $result:ty )? = $function:path; )+) => { $(
        core::arch::global_asm!(concat!(".hidden ", $name));

        /// # Safety
        /// As the function's without the prefix.
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $rust($( $argument: $kind ),*) $( -> $result )? {
            // SAFETY: by the caller's promise.
            #[allow(unused_unsafe)]
            unsafe { $function($( $argument ),*) }
        }
    )+ };
}

prefixed! {
    "_rjem_malloc" malloc(bytes: usize) -> Pointer = family::plain_malloc;
    "_rjem_calloc" calloc(count: usize, bytes: usize) -> Pointer = family::calloc;
    "_rjem_realloc" realloc(block: Pointer, bytes: usize) -> Pointer = family::realloc;
    "_rjem_free" free(block: Pointer) = family::plain_free;
    "_rjem_posix_memalign" posix_memalign(out: *mut Pointer, align: usize, bytes: usize) -> c_int = family::posix_memalign;
    "_rjem_aligned_alloc" aligned_alloc(align: usize, bytes: usize) -> Pointer = family::aligned_alloc;
    "_rjem_memalign" memalign(align: usize, bytes: usize) -> Pointer = family::memalign;
    "_rjem_valloc" valloc(bytes: usize) -> Pointer = family::valloc;
    "_rjem_free_sized" free_sized(block: Pointer, bytes: usize) = family::free_sized;
    "_rjem_free_aligned_sized" free_aligned_sized(block: Pointer, align: usize, bytes: usize) = family::free_aligned_sized;
    "_rjem_malloc_usable_size" malloc_usable_size(block: Pointer) -> usize = family::malloc_usable_size;
    "_rjem_mallocx" mallocx(bytes: usize, flags: c_int) -> Pointer = jemalloc::mallocx;
    "_rjem_rallocx" rallocx(block: Pointer, bytes: usize, flags: c_int) -> Pointer = jemalloc::rallocx;
    "_rjem_xallocx" xallocx(block: Pointer, bytes: usize, extra: usize, flags: c_int) -> usize = jemalloc::xallocx;
    "_rjem_sallocx" sallocx(block: Pointer, flags: c_int) -> usize = jemalloc::sallocx;
    "_rjem_dallocx" dallocx(block: Pointer, flags: c_int) = jemalloc::dallocx;
    "_rjem_sdallocx" sdallocx(block: Pointer, bytes: usize, flags: c_int) = jemalloc::sdallocx;
    "_rjem_nallocx" nallocx(bytes: usize, flags: c_int) -> usize = jemalloc::nallocx;
    "_rjem_mallctl" mallctl(name: Name, old: *mut c_void, old_length: *mut usize, new: *mut c_void, length: usize) -> c_int
        = jemalloc::mallctl;
    "_rjem_mallctlnametomib" mallctlnametomib(name: Name, mib: *mut usize, length: *mut usize) -> c_int
        = jemalloc::mallctlnametomib;
    "_rjem_mallctlbymib" mallctlbymib(mib: *const usize, parts: usize, old: *mut c_void, old_length: *mut usize,
        new: *mut c_void, length: usize) -> c_int = jemalloc::mallctlbymib;
    "_rjem_malloc_stats_print" malloc_stats_print(callback: Option<Message>, argument: *mut c_void, letters: Name)
        = jemalloc::malloc_stats_print;
}
