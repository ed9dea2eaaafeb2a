//! malloc and its family, by glibc's rules.

use super::c::{Pointer, address, errno, pointer, set_errno, undisturbed};
use super::{Blocks, blocks, heap};
use core::ffi::c_int;
use core::ptr;
use libc::{EINVAL, ENOMEM};
use vcmalloc_core::class::MIN_ALIGN;

/// The result of a slow path: errno says why a block could not be had, and is as it was otherwise.
pub fn answered(allocate: impl FnOnce() -> usize) -> Pointer {
    let before = errno();
    let block = allocate();
    set_errno(if block == 0 { ENOMEM } else { before });
    pointer(block)
}

/// The result of a slow path of C's functions, which have a mode in which they run C++'s new-handler before they give up.
#[cfg(gperftools)]
fn answered_in_mode(allocate: impl Fn() -> usize) -> Pointer {
    loop {
        let block = answered(&allocate);
        if !block.is_null() || !super::new_mode::tries_again() {
            return block;
        }
    }
}

#[cfg(gperftools)]
#[cold]
#[inline(never)]
extern "C" fn malloc_slow_in_mode(bytes: usize) -> Pointer {
    answered_in_mode(|| blocks().allocate_slow(bytes))
}

#[cfg(gperftools)]
pub extern "C" fn malloc_without_handler(bytes: usize) -> Pointer {
    answered(|| blocks().allocate(bytes))
}

#[cfg(not(gperftools))]
use {answered as answered_in_mode, malloc_slow as malloc_slow_in_mode};

/// malloc, or all of it but the fast path in fast.rs. A name of its own: tools find functions by their debug
/// names too.
#[cfg_attr(not(any(whole_paths, prefixed)), unsafe(export_name = "malloc"))]
pub extern "C" fn plain_malloc(bytes: usize) -> Pointer {
    match blocks().allocate_fast(bytes) {
        0 => malloc_slow_in_mode(bytes),
        block => pointer(block),
    }
}

#[cold]
#[inline(never)]
pub extern "C" fn malloc_slow(bytes: usize) -> Pointer {
    answered(|| blocks().allocate_slow(bytes))
}

// The function that programs call, by no name that they could put their own function in the place of.
#[cfg(whole_paths)]
unsafe extern "C" {
    /// In fast.rs: `malloc`, by a name that no other library's function can take the place of.
    #[link_name = "vcm_malloc_here"]
    pub fn exported_malloc(bytes: usize) -> Pointer;
}
#[cfg(not(whole_paths))]
pub use plain_malloc as exported_malloc;

/// `free`, by a name that no other library's function can take the place of.
#[cfg_attr(not(any(whole_paths, prefixed)), unsafe(export_name = "free"))]
pub extern "C" fn plain_free(block: Pointer) {
    if !blocks().free_fast(address(block)) {
        free_slow(block);
    }
}

#[cold]
#[inline(never)]
extern "C" fn free_slow(block: Pointer) {
    // Some programs free nothing more often than something.
    if block.is_null() {
        return;
    }
    undisturbed(|| blocks().free_slow(address(block)));
}

/// Frees a block whose size and alignment the caller knows; both must fit it.
#[inline(always)]
pub fn checked_free(block: Pointer, bytes: usize, align: usize) {
    if align > MIN_ALIGN || !blocks().free_sized_fast(address(block), bytes) {
        checked_free_slow(block, bytes, align);
    }
}

#[cold]
#[inline(never)]
extern "C" fn checked_free_slow(block: Pointer, bytes: usize, align: usize) {
    blocks().check_size(address(block), bytes, align);
    plain_free(block);
}

/// A name of free that libc dropped in 2017 and old programs still import.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn cfree(block: Pointer) {
    plain_free(block);
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn calloc(count: usize, bytes: usize) -> Pointer {
    #[cfg(whole_paths)]
    if let Some(total) = count.checked_mul(bytes).filter(|total| heap().is_unseen(*total)) {
        // SAFETY: malloc may be called with any size.
        let block = unsafe { exported_malloc(total) };
        if !block.is_null() {
            // SAFETY: the block is ours and at least `total` bytes long.
            unsafe { block.cast::<u8>().write_bytes(0, total) };
        }
        return block;
    }
    match blocks().allocate_zeroed_fast(count, bytes) {
        0 => answered_in_mode(|| blocks().allocate_zeroed(count, bytes)),
        block => pointer(block),
    }
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn realloc(block: Pointer, bytes: usize) -> Pointer {
    // glibc's reading of size 0: the block is freed and there is none any more.
    #[cfg(jemalloc)]
    if bytes == 0 && !block.is_null() && super::counted::keeps_at_zero() {
        return answered(|| blocks().reallocate(address(block), 1));
    }
    if bytes == 0 && !block.is_null() {
        plain_free(block);
        return ptr::null_mut();
    }
    // Lua and others take all their memory so.
    #[cfg(whole_paths)]
    if block.is_null() {
        // SAFETY: malloc may be called with any size.
        return unsafe { exported_malloc(bytes) };
    }
    answered_in_mode(|| blocks().reallocate(address(block), bytes))
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn reallocarray(block: Pointer, count: usize, bytes: usize) -> Pointer {
    match count.checked_mul(bytes) {
        Some(total) => realloc(block, total),
        None => {
            set_errno(ENOMEM);
            ptr::null_mut()
        }
    }
}

/// A block at a multiple of `align`, a power of two.
#[inline(always)]
fn aligned_block(align: usize, bytes: usize) -> Pointer {
    match blocks().allocate_aligned_fast(align, bytes) {
        0 => aligned_slow(align, bytes),
        block => pointer(block),
    }
}

#[cold]
#[inline(never)]
extern "C" fn aligned_slow(align: usize, bytes: usize) -> Pointer {
    answered_in_mode(|| blocks().allocate_aligned(align, bytes))
}

/// A block at an alignment that need not be a power of two: glibc takes the next one.
fn aligned(align: usize, bytes: usize) -> Pointer {
    match align.checked_next_power_of_two() {
        Some(align) => aligned_block(align, bytes),
        None => {
            set_errno(EINVAL);
            ptr::null_mut()
        }
    }
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn memalign(align: usize, bytes: usize) -> Pointer {
    aligned(align, bytes)
}

/// C17, and glibc from 2.38 on: an alignment that is no power of two is refused. A size that is no multiple of it is
/// taken.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> Pointer {
    if !align.is_power_of_two() {
        set_errno(EINVAL);
        return ptr::null_mut();
    }
    aligned_block(align, bytes)
}

/// # Safety
/// `out` is valid for writing a pointer.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(out: *mut Pointer, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<Pointer>()) {
        return EINVAL;
    }
    let block = match blocks().allocate_aligned_fast(align, bytes) {
        0 => aligned_quietly(align, bytes),
        block => pointer(block),
    };
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: by the caller's promise.
    unsafe { *out = block };
    0
}

/// Does the work of `aligned_slow`, with errno as it was: the caller's result says what happened.
#[cold]
#[inline(never)]
extern "C" fn aligned_quietly(align: usize, bytes: usize) -> Pointer {
    let before = errno();
    let block = aligned_slow(align, bytes);
    set_errno(before);
    block
}

fn page_bytes() -> usize {
    use vcmalloc_core::os::Os;
    heap().os().page_bytes()
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn valloc(bytes: usize) -> Pointer {
    aligned(page_bytes(), bytes)
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn pvalloc(bytes: usize) -> Pointer {
    match bytes.checked_next_multiple_of(page_bytes()) {
        Some(bytes) => aligned(page_bytes(), bytes),
        None => {
            set_errno(ENOMEM);
            ptr::null_mut()
        }
    }
}

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn malloc_usable_size(block: Pointer) -> usize {
    blocks().usable_bytes(address(block))
}

/// C23: `bytes` is what the block was asked for with.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn free_sized(block: Pointer, bytes: usize) {
    checked_free(block, bytes, 1);
}

/// C23: `align` and `bytes` are what the block was asked for with.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn free_aligned_sized(block: Pointer, align: usize, bytes: usize) {
    checked_free(block, bytes, align);
}
