//! The functions of the malloc family under gperftools' names (tcmalloc.h) and under the names that glibc has
//! for its own: gperftools defines both, so that no block is ever freed by another allocator than made it.

use crate::c::{Name, Pointer};
use crate::{cxx, extended, introspection, malloc, new_mode};
use core::ffi::c_int;

macro_rules! also {
    ($( $name:ident($( $argument:ident: $kind:ty ),*) $( -> $result:ty )? = $module:ident::$function:ident; )+) => { $(
        /// # Safety
        /// As the function of the family.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($( $argument: $kind ),*) $( -> $result )? {
            // SAFETY: by the caller's promise. Last in the function: an exception may pass through.
            unsafe { $module::$function($( $argument ),*) }
        }
    )+ };
}

also! {
    tc_malloc(bytes: usize) -> Pointer = malloc::plain_malloc;
    tc_malloc_skip_new_handler(bytes: usize) -> Pointer = malloc::malloc_without_handler;
    tc_free(block: Pointer) = malloc::plain_free;
    tc_free_sized(block: Pointer, bytes: usize) = malloc::free_sized;
    tc_free_aligned_sized(block: Pointer, align: usize, bytes: usize) = malloc::free_aligned_sized;
    tc_cfree(block: Pointer) = malloc::plain_free;
    tc_realloc(block: Pointer, bytes: usize) -> Pointer = malloc::realloc;
    tc_calloc(count: usize, bytes: usize) -> Pointer = malloc::calloc;
    tc_memalign(align: usize, bytes: usize) -> Pointer = malloc::memalign;
    tc_posix_memalign(out: *mut Pointer, align: usize, bytes: usize) -> c_int = malloc::posix_memalign;
    tc_valloc(bytes: usize) -> Pointer = malloc::valloc;
    tc_pvalloc(bytes: usize) -> Pointer = malloc::pvalloc;
    tc_malloc_size(block: Pointer) -> usize = malloc::malloc_usable_size;
    malloc_size(block: Pointer) -> usize = malloc::malloc_usable_size;
    tc_nallocx(bytes: usize, flags: c_int) -> usize = extended::nallocx;
    tc_malloc_stats() = introspection::malloc_stats;
    tc_mallopt(parameter: c_int, value: c_int) -> c_int = introspection::mallopt;
    tc_mallinfo() -> libc::mallinfo = introspection::mallinfo;
    tc_mallinfo2() -> libc::mallinfo2 = introspection::mallinfo2;

    __libc_malloc(bytes: usize) -> Pointer = malloc::plain_malloc;
    __libc_free(block: Pointer) = malloc::plain_free;
    __libc_cfree(block: Pointer) = malloc::plain_free;
    __libc_realloc(block: Pointer, bytes: usize) -> Pointer = malloc::realloc;
    __libc_calloc(count: usize, bytes: usize) -> Pointer = malloc::calloc;
    __libc_memalign(align: usize, bytes: usize) -> Pointer = malloc::memalign;
    __libc_valloc(bytes: usize) -> Pointer = malloc::valloc;
    __libc_pvalloc(bytes: usize) -> Pointer = malloc::pvalloc;
    __posix_memalign(out: *mut Pointer, align: usize, bytes: usize) -> c_int = malloc::posix_memalign;

    tc_new(bytes: usize) -> Pointer = cxx::_Znwm;
    tc_newarray(bytes: usize) -> Pointer = cxx::_Znam;
    tc_new_nothrow(bytes: usize) -> Pointer = cxx::_ZnwmRKSt9nothrow_t;
    tc_newarray_nothrow(bytes: usize) -> Pointer = cxx::_ZnamRKSt9nothrow_t;
    tc_new_aligned(bytes: usize, align: usize) -> Pointer = cxx::_ZnwmSt11align_val_t;
    tc_newarray_aligned(bytes: usize, align: usize) -> Pointer = cxx::_ZnamSt11align_val_t;
    tc_new_aligned_nothrow(bytes: usize, align: usize) -> Pointer = cxx::_ZnwmSt11align_val_tRKSt9nothrow_t;
    tc_newarray_aligned_nothrow(bytes: usize, align: usize) -> Pointer = cxx::_ZnamSt11align_val_tRKSt9nothrow_t;

    tc_delete(block: Pointer) = malloc::plain_free;
    tc_deletearray(block: Pointer) = malloc::plain_free;
    tc_delete_nothrow(block: Pointer) = malloc::plain_free;
    tc_deletearray_nothrow(block: Pointer) = malloc::plain_free;
    tc_delete_aligned(block: Pointer) = malloc::plain_free;
    tc_deletearray_aligned(block: Pointer) = malloc::plain_free;
    tc_delete_aligned_nothrow(block: Pointer) = malloc::plain_free;
    tc_deletearray_aligned_nothrow(block: Pointer) = malloc::plain_free;
    tc_delete_sized(block: Pointer, bytes: usize) = cxx::_ZdlPvm;
    tc_deletearray_sized(block: Pointer, bytes: usize) = cxx::_ZdaPvm;
    tc_delete_sized_aligned(block: Pointer, bytes: usize, align: usize) = cxx::_ZdlPvmSt11align_val_t;
    tc_deletearray_sized_aligned(block: Pointer, bytes: usize, align: usize) = cxx::_ZdaPvmSt11align_val_t;

    tc_set_new_mode(flag: c_int) -> c_int = new_mode::set;
    tc_query_new_mode() -> c_int = new_mode::get;
}

/// The version of gperftools whose interface this is: programs compare the numbers with those of their
/// headers.
///
/// # Safety
/// Each pointer is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tc_version(major: *mut c_int, minor: *mut c_int, patch: *mut Name) -> Name {
    // SAFETY: by the caller's promise.
    unsafe {
        if let Some(major) = major.as_mut() {
            *major = 2;
        }
        if let Some(minor) = minor.as_mut() {
            *minor = 10;
        }
        if let Some(patch) = patch.as_mut() {
            *patch = c"".as_ptr();
        }
    }
    concat!("gperftools 2.10 (vcmalloc ", env!("VCMALLOC_VERSION"), ")\0").as_ptr().cast()
}
