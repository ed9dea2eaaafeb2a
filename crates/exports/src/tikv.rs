//! The crate `tikv-jemalloc-sys` in the place of the one that compiles jemalloc: the same functions, types and values, on the heap of this
//! crate. C's names begin with `_rjem_`, or are the plain ones by the feature `unprefixed_malloc_on_supported_platforms`.
//!
//! A program takes it by one line (docs/reference/jemalloc.md). Declarations only, as there: calls go by C's names, which the C and
//! C++ code of the program uses, too.
#![allow(non_camel_case_types, non_snake_case)]

#[cfg(prefixed)]
mod prefixed;

#[cfg(fuzzed)]
pub use crate::jemalloc::trial;

use core::ffi::{c_char, c_int, c_uint, c_void};

type size_t = usize;

/// A flag: the logarithm of the block's alignment.
#[inline]
#[must_use]
pub const fn MALLOCX_LG_ALIGN(logarithm: usize) -> c_int {
    logarithm as c_int
}

/// A flag: the block's alignment, a power of two.
#[inline]
#[must_use]
pub const fn MALLOCX_ALIGN(align: usize) -> c_int {
    align.trailing_zeros() as c_int
}

/// A flag: the block's new bytes are zero.
pub const MALLOCX_ZERO: c_int = 0x40;

/// A flag: a cache of `tcache.create`. Caches belong to virtual CPUs here, and it changes nothing.
#[inline]
#[must_use]
pub const fn MALLOCX_TCACHE(cache: usize) -> c_int {
    (cache.wrapping_add(2) << 8) as c_int
}

/// A flag: no cache.
pub const MALLOCX_TCACHE_NONE: c_int = MALLOCX_TCACHE(usize::MAX);

/// A flag: the block is one of this arena.
#[inline]
#[must_use]
pub const fn MALLOCX_ARENA(arena: usize) -> c_int {
    (arena as c_int).wrapping_add(1) << 20
}

unsafe extern "C" {
    /// A block of at least `size` bytes.
    #[cfg_attr(prefixed, link_name = "_rjem_malloc")]
    pub fn malloc(size: size_t) -> *mut c_void;
    /// A block for `number` values of `size` bytes, all zero.
    #[cfg_attr(prefixed, link_name = "_rjem_calloc")]
    pub fn calloc(number: size_t, size: size_t) -> *mut c_void;
    /// A block at a multiple of `alignment` into `ptr`; 0, `EINVAL` or `ENOMEM`.
    #[cfg_attr(prefixed, link_name = "_rjem_posix_memalign")]
    pub fn posix_memalign(ptr: *mut *mut c_void, alignment: size_t, size: size_t) -> c_int;
    /// A block at a multiple of `alignment`, a power of two.
    #[cfg_attr(prefixed, link_name = "_rjem_aligned_alloc")]
    pub fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void;
    /// The block with its contents and another size, perhaps elsewhere.
    #[cfg_attr(prefixed, link_name = "_rjem_realloc")]
    pub fn realloc(ptr: *mut c_void, size: size_t) -> *mut c_void;
    /// Frees a block; null is none.
    #[cfg_attr(prefixed, link_name = "_rjem_free")]
    pub fn free(ptr: *mut c_void);
    /// C23: frees a block that was requested with `size` bytes.
    #[cfg_attr(prefixed, link_name = "_rjem_free_sized")]
    pub fn free_sized(ptr: *mut c_void, size: size_t);
    /// C23: frees a block that was requested with `alignment` and `size` bytes.
    #[cfg_attr(prefixed, link_name = "_rjem_free_aligned_sized")]
    pub fn free_aligned_sized(ptr: *mut c_void, alignment: size_t, size: size_t);
    /// A block of at least `size` bytes, as the flags have it.
    #[cfg_attr(prefixed, link_name = "_rjem_mallocx")]
    pub fn mallocx(size: size_t, flags: c_int) -> *mut c_void;
    /// The block with its contents and at least `size` bytes, perhaps elsewhere.
    #[cfg_attr(prefixed, link_name = "_rjem_rallocx")]
    pub fn rallocx(ptr: *mut c_void, size: size_t, flags: c_int) -> *mut c_void;
    /// Resizes a block in its place to `size + extra` bytes, else to `size`; the bytes that it has then.
    #[cfg_attr(prefixed, link_name = "_rjem_xallocx")]
    pub fn xallocx(ptr: *mut c_void, size: size_t, extra: size_t, flags: c_int) -> size_t;
    /// The bytes of a block.
    #[cfg_attr(prefixed, link_name = "_rjem_sallocx")]
    pub fn sallocx(ptr: *const c_void, flags: c_int) -> size_t;
    /// Frees a block.
    #[cfg_attr(prefixed, link_name = "_rjem_dallocx")]
    pub fn dallocx(ptr: *mut c_void, flags: c_int);
    /// Frees a block that was requested with `size` bytes, or has them.
    #[cfg_attr(prefixed, link_name = "_rjem_sdallocx")]
    pub fn sdallocx(ptr: *mut c_void, size: size_t, flags: c_int);
    /// The bytes of the block that `mallocx` would return.
    #[cfg_attr(prefixed, link_name = "_rjem_nallocx")]
    pub fn nallocx(size: size_t, flags: c_int) -> size_t;
    /// The bytes of a block; 0 for null.
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_usable_size")]
    pub fn malloc_usable_size(ptr: *const c_void) -> size_t;
    /// Reads and sets a value of the control tree.
    #[cfg_attr(prefixed, link_name = "_rjem_mallctl")]
    pub fn mallctl(
        name: *const c_char,
        oldp: *mut c_void,
        oldlenp: *mut size_t,
        newp: *mut c_void,
        newlen: size_t,
    ) -> c_int;
    /// The place of a name in the tree.
    #[cfg_attr(prefixed, link_name = "_rjem_mallctlnametomib")]
    pub fn mallctlnametomib(name: *const c_char, mibp: *mut size_t, miblenp: *mut size_t) -> c_int;
    /// The same as `mallctl`, by a place.
    #[cfg_attr(prefixed, link_name = "_rjem_mallctlbymib")]
    pub fn mallctlbymib(
        mib: *const size_t,
        miblen: size_t,
        oldp: *mut c_void,
        oldlenp: *mut size_t,
        newp: *mut c_void,
        newlen: size_t,
    ) -> c_int;
    /// Hands the statistics to `write_cb`, as text or with `J` among `opts` as JSON.
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_stats_print")]
    pub fn malloc_stats_print(
        write_cb: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
        cbopaque: *mut c_void,
        opts: *const c_char,
    );
    /// The function that gets each line for the operator; none: they go to stderr.
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_message")]
    pub static mut malloc_message: Option<unsafe extern "C" fn(cbopaque: *mut c_void, s: *const c_char)>;
    /// The program's options. A program defines its own by the same name.
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_conf")]
    pub static malloc_conf: Option<&'static c_char>;
}

/// The functions that an arena would take and release memory with. Arenas here refuse them.
pub type extent_hooks_t = extent_hooks_s;

/// Takes memory.
pub type extent_alloc_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    new_addr: *mut c_void,
    size: size_t,
    alignment: size_t,
    zero: *mut bool,
    commit: *mut bool,
    arena_ind: c_uint,
) -> *mut c_void;
/// Releases memory; true if it refuses.
pub type extent_dalloc_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    addr: *mut c_void,
    size: size_t,
    committed: bool,
    arena_ind: c_uint,
) -> bool;
/// Releases memory for good.
pub type extent_destroy_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    addr: *mut c_void,
    size: size_t,
    committed: bool,
    arena_ind: c_uint,
);
/// Makes a part usable; true if it refuses.
pub type extent_commit_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    addr: *mut c_void,
    size: size_t,
    offset: size_t,
    length: size_t,
    arena_ind: c_uint,
) -> bool;
/// Makes a part unusable; true if it refuses.
pub type extent_decommit_t = extent_commit_t;
/// Discards the contents of a part; true if it refuses.
pub type extent_purge_t = extent_commit_t;
/// Divides a piece; true if it refuses.
pub type extent_split_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    addr: *mut c_void,
    size: size_t,
    size_a: size_t,
    size_b: size_t,
    committed: bool,
    arena_ind: c_uint,
) -> bool;
/// Joins two pieces; true if it refuses.
pub type extent_merge_t = unsafe extern "C" fn(
    extent_hooks: *mut extent_hooks_t,
    addr_a: *mut c_void,
    size_a: size_t,
    addr_b: *mut c_void,
    size_b: size_t,
    committed: bool,
    arena_ind: c_uint,
) -> bool;

#[allow(missing_docs)]
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct extent_hooks_s {
    pub alloc: Option<extent_alloc_t>,
    pub dalloc: Option<extent_dalloc_t>,
    pub destroy: Option<extent_destroy_t>,
    pub commit: Option<extent_commit_t>,
    pub decommit: Option<extent_decommit_t>,
    pub purge_lazy: Option<extent_purge_t>,
    pub purge_forced: Option<extent_purge_t>,
    pub split: Option<extent_split_t>,
    pub merge: Option<extent_merge_t>,
}

/// Targets that nothing is built for.
pub static UNSUPPORTED_TARGETS: &[&str] =
    &["android", "apple", "bsd", "windows", "wasm32", "dragonfly", "fuchsia", "redox"];
/// Targets without tests.
pub static UNTESTED_TARGETS: &[&str] = &[];
/// Targets on which `background_thread` has no effect: none.
pub static NO_BG_THREAD_TARGETS: &[&str] = &[];
/// Targets that always have the prefix: none.
pub static NO_UNPREFIXED_MALLOC_TARGETS: &[&str] = &[];
