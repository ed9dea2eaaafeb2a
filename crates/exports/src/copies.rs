//! memcpy before the C library's: if every block is checked, so is each copy into one.
//!
//! Compilers write short copies of a known length themselves, and `_FORTIFY_SOURCE` calls `__memcpy_chk`: neither comes by
//! here.

use super::c::{Pointer, address};
use super::{Blocks, blocks};
use core::ffi::c_void;
use core::hint::black_box;

/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: Pointer, from: *const c_void, bytes: usize) -> Pointer {
    blocks().check_copy(address(to), bytes);
    // The compiler must not see which function that is: it would call memcpy in its place, which is this one.
    let copy: unsafe extern "C" fn(Pointer, *const c_void, usize) -> Pointer = black_box(libc::memmove);
    // SAFETY: the caller's promise is more than memmove asks for.
    unsafe { copy(to, from, bytes) }
}
