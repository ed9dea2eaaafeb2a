//! A heap of vcmalloc for each tenant, by the functions of the library that the replayer runs on.

use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;

/// As in `include/vcmalloc.h`, as far as it is read here.
#[repr(C)]
struct Stats {
    size: size_t,
    live: u64,
    live_blocks: u64,
    cached: u64,
    bytes: u64,
    peak: u64,
    limit: u64,
    resident: u64,
}

const FREE: c_int = 0;

/// Functions that the allocator has, or has not.
pub struct Heaps {
    new: unsafe extern "C" fn(*const c_char, *const c_void) -> u64,
    malloc: unsafe extern "C" fn(u64, size_t) -> *mut c_void,
    calloc: unsafe extern "C" fn(u64, size_t, size_t) -> *mut c_void,
    aligned: unsafe extern "C" fn(u64, size_t, size_t) -> *mut c_void,
    realloc: unsafe extern "C" fn(u64, *mut c_void, size_t) -> *mut c_void,
    destroy: unsafe extern "C" fn(u64, c_int) -> c_int,
    stats: unsafe extern "C" fn(u64, *mut Stats) -> c_int,
}

/// A function of this name, as the pointer that the caller wants.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: a name that ends; it is looked for in what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller names the type that the header has for it, a pointer.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

impl Heaps {
    pub fn of_this_process() -> Option<Heaps> {
        // SAFETY: the types are those of the header.
        unsafe {
            Some(Heaps {
                new: function(c"vcm_heap_new")?,
                malloc: function(c"vcm_heap_malloc")?,
                calloc: function(c"vcm_heap_calloc")?,
                aligned: function(c"vcm_heap_aligned")?,
                realloc: function(c"vcm_heap_realloc")?,
                destroy: function(c"vcm_heap_destroy")?,
                stats: function(c"vcm_heap_stats")?,
            })
        }
    }

    /// 0: it was refused.
    pub fn new_heap(&self) -> u64 {
        // SAFETY: both may be null.
        unsafe { (self.new)(c"tenant".as_ptr(), std::ptr::null()) }
    }

    /// Bytes of its live blocks, of its spans, and of these in memory.
    pub fn figures(&self, heap: u64) -> Option<[u64; 3]> {
        // SAFETY: zeros are a value of it, and the library writes `size` bytes at most.
        unsafe {
            let mut stats: Stats = std::mem::zeroed();
            stats.size = size_of::<Stats>();
            ((self.stats)(heap, &raw mut stats) == 0).then_some([stats.live, stats.bytes, stats.resident])
        }
    }

    pub fn end(&self, heap: u64) {
        // SAFETY: the caller frees none of its blocks after it.
        unsafe { (self.destroy)(heap, FREE) };
    }

    pub unsafe fn malloc(&self, heap: u64, bytes: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { (self.malloc)(heap, bytes).cast() }
    }

    pub unsafe fn calloc(&self, heap: u64, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { (self.calloc)(heap, 1, bytes).cast() }
    }

    pub unsafe fn aligned(&self, heap: u64, log2: u32, bytes: usize) -> *mut u8 {
        // SAFETY: an alignment below a pointer's is raised to it.
        unsafe { (self.aligned)(heap, 1 << log2.clamp(3, 40), bytes).cast() }
    }

    pub unsafe fn realloc(&self, heap: u64, block: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's block came from this process's heaps. One of no bytes would be freed.
        unsafe { (self.realloc)(heap, block.cast(), bytes.max(1)).cast() }
    }
}
