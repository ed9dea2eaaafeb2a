//! LLVM's AllocToken: the functions that a compiler calls instead of malloc and new, with a token for the type
//! (`-fsanitize=alloc-token`, docs/reference/tokens.md). The token chooses a partition of the heap.
// The linker's names.
#![allow(non_snake_case)]

use super::c::{Pointer, pointer, set_errno, undisturbed};
use super::cxx::{new_or_throw as vcm_new_or_throw, vcm_new_or_null};
use super::malloc::answered;
use super::{Blocks, blocks, heap};
use core::ffi::{c_int, c_void};
use vcmalloc_core::base::fault::Maker;

/// A block of the partition; of the process's own heap where that has none. 0 where there is no memory.
fn take(token: u64, align: usize, bytes: usize) -> usize {
    undisturbed(|| {
        let id = blocks().heap_for_token(token);
        // Not twice of a heap that serves the thread.
        let is_own = heap().scope() == id;
        let own = || if is_own { 0 } else { blocks().allocate_aligned(align, bytes) };
        blocks().allocate_in(id, align, bytes).unwrap_or_else(|_| own())
    })
}

#[unsafe(no_mangle)]
extern "C" fn __alloc_token_malloc(bytes: usize, token: u64) -> Pointer {
    answered(|| take(token, 1, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn __alloc_token_calloc(count: usize, bytes: usize, token: u64) -> Pointer {
    // Memory is zero when it is handed out.
    answered(|| count.checked_mul(bytes).map_or(0, |total| take(token, 1, total)))
}

/// A block stays in its partition.
#[unsafe(no_mangle)]
extern "C" fn __alloc_token_realloc(block: Pointer, bytes: usize, token: u64) -> Pointer {
    match block.is_null() {
        true => __alloc_token_malloc(bytes, token),
        false => super::malloc::realloc(block, bytes),
    }
}

#[unsafe(no_mangle)]
extern "C" fn __alloc_token_reallocarray(block: Pointer, count: usize, bytes: usize, token: u64) -> Pointer {
    match count.checked_mul(bytes) {
        Some(total) => __alloc_token_realloc(block, total, token),
        None => answered(|| 0),
    }
}

#[unsafe(no_mangle)]
extern "C" fn __alloc_token_aligned_alloc(align: usize, bytes: usize, token: u64) -> Pointer {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    answered(|| take(token, align, bytes))
}

/// glibc takes the next power of two.
#[unsafe(no_mangle)]
extern "C" fn __alloc_token_memalign(align: usize, bytes: usize, token: u64) -> Pointer {
    match align.checked_next_power_of_two() {
        Some(align) => answered(|| take(token, align, bytes)),
        None => __alloc_token_aligned_alloc(0, bytes, token),
    }
}

/// # Safety
/// `place` can be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn __alloc_token_posix_memalign(
    place: *mut Pointer,
    align: usize,
    bytes: usize,
    token: u64,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    match take(token, align, bytes) {
        0 => libc::ENOMEM,
        // SAFETY: by the caller's promise.
        block => unsafe {
            place.write(pointer(block));
            0
        },
    }
}

/// A block for one of the operators new; 0 where there is no memory.
fn make(token: u64, align: usize, bytes: usize, maker: Maker) -> usize {
    let block = take(token, align, bytes);
    blocks().mark(block, maker);
    block
}

macro_rules! new {
    ($($name:ident($($argument:ident: $kind:ty),*) $maker:ident $align:expr, $no_memory:ident;)+) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(bytes: usize, $($argument: $kind,)* token: u64) -> Pointer {
            match make(token, $align, bytes, Maker::$maker) {
                // SAFETY: every size and alignment may be asked for.
                0 => unsafe { $no_memory(bytes, $align, Maker::$maker) },
                block => pointer(block),
            }
        }
    )+ };
}

new! {
    __alloc_token__Znwm() New 1, vcm_new_or_throw;
    __alloc_token__Znam() NewArray 1, vcm_new_or_throw;
    __alloc_token__ZnwmRKSt9nothrow_t(_nothrow: *const c_void) New 1, vcm_new_or_null;
    __alloc_token__ZnamRKSt9nothrow_t(_nothrow: *const c_void) NewArray 1, vcm_new_or_null;
    __alloc_token__ZnwmSt11align_val_t(align: usize) AlignedNew align, vcm_new_or_throw;
    __alloc_token__ZnamSt11align_val_t(align: usize) AlignedNewArray align, vcm_new_or_throw;
    __alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(align: usize, _nothrow: *const c_void)
        AlignedNew align, vcm_new_or_null;
    __alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(align: usize, _nothrow: *const c_void)
        AlignedNewArray align, vcm_new_or_null;
}
