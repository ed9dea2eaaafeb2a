//! malloc_extension_c.h: each function calls the method of the registered extension, as gperftools' do.

use super::class::instance;
use super::layout::Block;
use crate::c::Name;
use core::ffi::{c_char, c_int};

macro_rules! c_api {
    ($( $name:ident = $method:ident($( $argument:ident: $kind:ty ),*) -> $result:ty; )+) => { $(
        /// # Safety
        /// As the method of this name asks for.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($( $argument: $kind ),*) -> $result {
            let this = instance();
            // SAFETY: an extension lives as long as it is registered; the arguments by the caller's promise.
            unsafe { ((*this).methods.$method)(this $(, $argument )*) as $result }
        }
    )+ };
}

c_api! {
    MallocExtension_VerifyAllMemory = verify_all_memory() -> c_int;
    MallocExtension_VerifyNewMemory = verify_new_memory(block: Block) -> c_int;
    MallocExtension_VerifyArrayNewMemory = verify_array_new_memory(block: Block) -> c_int;
    MallocExtension_VerifyMallocMemory = verify_malloc_memory(block: Block) -> c_int;
    MallocExtension_MallocMemoryStats =
        malloc_memory_stats(blocks: *mut c_int, total: *mut usize, histogram: *mut c_int) -> c_int;
    MallocExtension_GetNumericProperty = get_numeric_property(name: Name, value: *mut usize) -> c_int;
    MallocExtension_SetNumericProperty = set_numeric_property(name: Name, value: usize) -> c_int;
    MallocExtension_GetEstimatedAllocatedSize = get_estimated_allocated_size(bytes: usize) -> usize;
    MallocExtension_GetAllocatedSize = get_allocated_size(block: Block) -> usize;
    MallocExtension_GetThreadCacheSize = get_thread_cache_size() -> usize;
    MallocExtension_GetOwnership = get_ownership(block: Block) -> c_int;
    // Since 2.14.
    MallocExtension_GetMemoryReleaseRate = get_memory_release_rate() -> f64;
}

macro_rules! c_api_without_result {
    ($( $name:ident = $method:ident($( $argument:ident: $kind:ty ),*); )+) => { $(
        /// # Safety
        /// As the method of this name asks for.
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($( $argument: $kind ),*) {
            let this = instance();
            // SAFETY: an extension lives as long as it is registered; the arguments by the caller's promise.
            unsafe { ((*this).methods.$method)(this $(, $argument )*) }
        }
    )+ };
}

c_api_without_result! {
    MallocExtension_GetStats = get_stats(buffer: *mut c_char, length: c_int);
    MallocExtension_MarkThreadIdle = mark_thread_idle();
    MallocExtension_MarkThreadBusy = mark_thread_busy();
    MallocExtension_MarkThreadTemporarilyIdle = mark_thread_temporarily_idle();
    MallocExtension_ReleaseToSystem = release_to_system(bytes: usize);
    MallocExtension_ReleaseFreeMemory = release_free_memory();
    MallocExtension_SetMemoryReleaseRate = set_memory_release_rate(rate: f64);
}
