//! mallocx and its family, with arenas: a block of an arena is one of its heap. Caches that flags name are numbers (`tcaches`).

use super::arenas;
use crate::c::{Pointer, address, errno, pointer, set_errno, undisturbed};
use crate::{Blocks, blocks, counted, extended, heap};
use core::ffi::c_int;
use core::ptr;
use libc::ENOMEM;
use vcmalloc_core::class::{LARGEST_BYTES, MIN_ALIGN};
use vcmalloc_core::heap::{HeapId, LARGEST_REQUEST};

/// MALLOCX_ZERO.
const ZERO: c_int = 0x40;

/// The arena that flags name, as a number.
fn arena_of(flags: c_int) -> Option<usize> {
    (flags as u32 >> 20).checked_sub(1).map(|number| number as usize)
}

fn align_of(flags: c_int) -> usize {
    1 << (flags as u32 & 63)
}

fn refused() -> Pointer {
    set_errno(ENOMEM);
    ptr::null_mut()
}

/// A block of a heap, all of whose bytes are asked for as `extended` does.
fn block_of(id: HeapId, bytes: usize, flags: c_int) -> Pointer {
    let align = align_of(flags);
    if bytes > LARGEST_REQUEST || align > LARGEST_REQUEST {
        return refused();
    }
    let real = blocks().block_bytes_for(bytes, align);
    let taken = undisturbed(|| {
        let align = align.max(MIN_ALIGN);
        match flags & ZERO {
            0 => heap().take_block_of(id, align, real),
            _ => heap().take_zeroed_block_of(id, align, real),
        }
    });
    let Ok(block) = taken else { return refused() };
    let block = pointer(counted::took(block));
    if flags & ZERO != 0 {
        extended::clear_from(block, real);
    }
    as_told(block, align, real)
}

/// The block, of the size that `nallocx` tells: a large one that was freed a moment ago may be a little longer.
#[inline(always)]
fn as_told(block: Pointer, align: usize, real: usize) -> Pointer {
    if real > LARGEST_BYTES && !block.is_null() && blocks().usable_bytes(address(block)) > real {
        undisturbed(|| counted::trim(address(block), align, real));
    }
    block
}

/// Zeros, or an alignment.
const SPECIAL: c_int = 0xff;
/// Flags of which none is set where mallocx asks what malloc does. A cache is a number only.
const MORE: c_int = !(0xfff << 8);

#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn mallocx(bytes: usize, flags: c_int) -> Pointer {
    if flags & MORE == 0 {
        let block = blocks().allocate_fast(bytes.max(1));
        if block != 0 {
            return pointer(block);
        }
    }
    match arena_of(flags).map(arenas::heap_of) {
        None => {
            let block = extended::mallocx(bytes, flags);
            as_told(block, align_of(flags), blocks().block_bytes_for(bytes, align_of(flags)))
        }
        Some(Some(id)) => match if flags & SPECIAL == 0 { counted::pop_of(id, bytes) } else { 0 } {
            0 => block_of(id, bytes, flags),
            block => pointer(block),
        },
        Some(None) => refused(),
    }
}

/// With an arena in the flags the block is one of it then, wherever it was.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn rallocx(block: Pointer, bytes: usize, flags: c_int) -> Pointer {
    let Some(number) = arena_of(flags) else { return resized(block, bytes, flags) };
    let Some(id) = arenas::heap_of(number) else { return refused() };
    if block.is_null() {
        return block_of(id, bytes, flags);
    }
    if heap().owner_heap(address(block)).unwrap_or(HeapId::OWN) == id {
        return resized(block, bytes, flags);
    }
    moved(block, bytes, || block_of(id, bytes, flags))
}

/// A block that stays in its heap. As there, it has the size that `nallocx` tells, and neither the old one nor room to grow.
fn resized(block: Pointer, bytes: usize, flags: c_int) -> Pointer {
    let before = errno();
    loop {
        let id = heap().owner_heap(address(block)).unwrap_or(HeapId::OWN);
        let resized = resized_in(id, block, bytes, flags);
        let is_refused = resized.is_null() && id != HeapId::OWN;
        if !is_refused || !undisturbed(|| heap().is_handed_over(id, address(block))) {
            return resized;
        }
        set_errno(before);
    }
}

fn resized_in(id: HeapId, block: Pointer, bytes: usize, flags: c_int) -> Pointer {
    let align = align_of(flags);
    let before = blocks().usable_bytes(address(block));
    let real = blocks().block_bytes_for(bytes, align);
    let is_large = real > LARGEST_BYTES;
    if block.is_null() || bytes == 0 || bytes > LARGEST_REQUEST || before == real || is_large && before < real
    {
        return extended::rallocx(block, bytes, flags);
    }
    if is_large && undisturbed(|| blocks().resize_in_place(address(block), align, real)) {
        return block;
    }
    let other = moved(block, bytes, || block_of(id, bytes, flags));
    // Without memory a block that shrinks stays as it is.
    if other.is_null() && bytes <= before { extended::rallocx(block, bytes, flags) } else { other }
}

/// The contents of a block in another one, which `take` gives.
fn moved(block: Pointer, bytes: usize, take: impl FnOnce() -> Pointer) -> Pointer {
    let before = blocks().usable_bytes(address(block));
    let moved = take();
    if !moved.is_null() {
        // SAFETY: both blocks are at least so long, and do not overlap.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast::<u8>(), before.min(bytes)) };
        extended::dallocx(block, 0);
    }
    moved
}

/// A large block becomes no small one.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub extern "C" fn xallocx(block: Pointer, bytes: usize, extra: usize, flags: c_int) -> usize {
    let before = blocks().usable_bytes(address(block));
    if before > LARGEST_BYTES && bytes.saturating_add(extra) <= LARGEST_BYTES {
        return before;
    }
    extended::xallocx(block, bytes, extra, flags)
}

macro_rules! as_extended {
    ($( $name:ident($( $argument:ident: $kind:ty ),*) $( -> $result:ty )?; )+) => { $(
        #[cfg_attr(not(prefixed), unsafe(no_mangle))]
        pub extern "C" fn $name($( $argument: $kind ),*) $( -> $result )? {
            extended::$name($( $argument ),*)
        }
    )+ };
}

as_extended! {
    sallocx(block: Pointer, flags: c_int) -> usize;
    dallocx(block: Pointer, flags: c_int);
    sdallocx(block: Pointer, bytes: usize, flags: c_int);
    nallocx(bytes: usize, flags: c_int) -> usize;
}
