//! jemalloc's calls with flags: mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx, nallocx.
//!
//! All of them or none: a program that is linked with jemalloc finds here what we export and in jemalloc what
//! we do not, so with some missing it would free by one allocator what the other made. There is no `mallctl`:
//! by that programs tell that jemalloc serves them. The stand-in for jemalloc has it, and functions of its own that know
//! arenas before these.

use super::c::{Pointer, address, pointer, undisturbed};
use super::malloc::{answered, checked_free, plain_free};
use super::{Blocks, blocks};
use core::ffi::c_int;
use vcmalloc_core::heap::LARGEST_REQUEST;

/// The longest block that jemalloc's interface knows, and the greatest alignment.
const GREATEST: usize = 7 << 60;

/// The flags of a call. Flags that name a cache or an arena of jemalloc's ask for nothing here.
#[derive(Clone, Copy)]
struct Flags(c_int);

impl Flags {
    /// MALLOCX_ZERO.
    const ZERO: c_int = 0x40;

    /// Its logarithm is in the lowest six bits.
    fn align(self) -> usize {
        1usize << (self.0 as u32 & 63)
    }

    fn is_zeroed(self) -> bool {
        self.0 & Self::ZERO != 0
    }

    /// The bytes that a block for `bytes` has, none where there can be no such block. All of them are asked
    /// for: a program may use what `nallocx` said, and with MALLOCX_ZERO relies on zeros up to there when it
    /// asks for more later.
    fn real_bytes(self, bytes: usize) -> Option<usize> {
        let can_be = bytes <= LARGEST_REQUEST && self.align() <= GREATEST;
        can_be.then(|| blocks().block_bytes_for(bytes, self.align())).filter(|real| *real <= GREATEST)
    }
}

/// A block of at least `bytes`. The result for size 0 is undefined there; here it is a block, as malloc's.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn mallocx(bytes: usize, flags: c_int) -> Pointer {
    let flags = Flags(flags);
    let Some(real) = flags.real_bytes(bytes) else { return answered(|| 0) };
    if flags.is_zeroed() {
        let block = answered(|| blocks().allocate_aligned_zeroed(flags.align(), real));
        clear_from(block, real);
        return block;
    }
    match blocks().allocate_aligned_fast(flags.align(), real) {
        0 => answered(|| blocks().allocate_aligned(flags.align(), real)),
        block => pointer(block),
    }
}

/// The block with its contents and another size, perhaps elsewhere; null where there is no memory, and the
/// old block is as it was.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn rallocx(block: Pointer, bytes: usize, flags: c_int) -> Pointer {
    let flags = Flags(flags);
    let Some(real) = flags.real_bytes(bytes) else { return answered(|| 0) };
    let before = blocks().usable_bytes(address(block));
    let resized = answered(|| blocks().reallocate_aligned(address(block), flags.align(), real));
    if flags.is_zeroed() && !resized.is_null() {
        clear_from(resized, before);
    }
    resized
}

/// Resizes a block where it lies: to `bytes + extra` if that can be, else to `bytes`. Returns the size that
/// it has then, which is the old one where neither can be.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn xallocx(block: Pointer, bytes: usize, extra: usize, flags: c_int) -> usize {
    let flags = Flags(flags);
    let before = blocks().usable_bytes(address(block));
    let resizes = |wanted: usize| {
        let real = flags.real_bytes(wanted);
        real.is_some_and(|real| blocks().resize_in_place(address(block), flags.align(), real))
    };
    let resized = undisturbed(|| {
        bytes <= LARGEST_REQUEST
            && (resizes(bytes.saturating_add(extra).min(LARGEST_REQUEST)) || before < bytes && resizes(bytes))
    });
    if resized && flags.is_zeroed() {
        clear_from(block, before);
    }
    blocks().usable_bytes(address(block))
}

/// Clears a block from its byte `from` to its end: one that is a sample, or guarded, is larger than was requested. Null is no block.
pub fn clear_from(block: Pointer, from: usize) {
    let bytes = blocks().usable_bytes(address(block));
    if from < bytes {
        // SAFETY: the block is the caller's, and so long.
        unsafe { block.cast::<u8>().add(from).write_bytes(0, bytes - from) };
    }
}

/// The bytes that may be used.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn sallocx(block: Pointer, _: c_int) -> usize {
    blocks().usable_bytes(address(block))
}

#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn dallocx(block: Pointer, _: c_int) {
    plain_free(block);
}

/// `bytes`, and the alignment in the flags, are what the block was asked for with.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn sdallocx(block: Pointer, bytes: usize, flags: c_int) {
    checked_free(block, bytes, Flags(flags).align());
}

/// The bytes that `mallocx` would return a block of; 0 where it would fail.
#[cfg_attr(not(jemalloc), unsafe(no_mangle))]
pub extern "C" fn nallocx(bytes: usize, flags: c_int) -> usize {
    match bytes {
        0 => 0,
        _ => Flags(flags).real_bytes(bytes).unwrap_or(0),
    }
}
