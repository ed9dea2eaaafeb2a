//! malloc's family under its own names.

use crate::layout::{Kind, LOW};
use crate::next::{self, Block};
use crate::record::{is_sampled, put};
use crate::start::{is_found, shared};
use core::ffi::c_int;
use core::ptr::null_mut;

#[inline(always)]
pub fn begun(kind: Kind, block: Block, bytes: usize, alignment: usize) {
    if let Some(header) = shared()
        && !block.is_null()
        && is_sampled(header, block)
    {
        let log2 = alignment.checked_ilog2().unwrap_or(0) as u64;
        put(header, kind, block as u64, log2 << 56 | (bytes as u64 & LOW));
    }
}

/// Whether it was recorded.
#[inline(always)]
pub fn ended(kind: Kind, block: Block, bytes: usize) -> bool {
    match shared() {
        Some(header) if is_sampled(header, block) => {
            put(header, kind, block as u64, bytes as u64 & LOW);
            true
        }
        _ => false,
    }
}

fn refuse() -> Block {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// Calls the function behind; before it is known, `early` makes a block that stays.
macro_rules! ask {
    ($function:ident($($argument:expr),*), $early:expr) => {
        match next::$function() {
            // SAFETY: the caller keeps the rules of the function of this name.
            Some(function) => unsafe { function($($argument),*) },
            None if is_found() => match next::$function() {
                // SAFETY: as above.
                Some(function) => unsafe { function($($argument),*) },
                None => refuse(),
            },
            None => $early,
        }
    };
}

#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> Block {
    let block = ask!(malloc(bytes), next::early(bytes));
    begun(Kind::Malloc, block, bytes, 0);
    block
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, bytes: usize) -> Block {
    let total = count.wrapping_mul(bytes);
    let block = ask!(calloc(count, bytes), next::early(total));
    begun(Kind::Calloc, block, total, 0);
    block
}

#[unsafe(no_mangle)]
extern "C" fn free(block: Block) {
    if block.is_null() || next::is_early(block) {
        return;
    }
    ended(Kind::Free, block, 0);
    if let Some(free) = next::free() {
        // SAFETY: the caller's block.
        unsafe { free(block) }
    }
}

#[unsafe(no_mangle)]
extern "C" fn realloc(old: Block, bytes: usize) -> Block {
    if next::is_early(old) {
        let block = malloc(bytes);
        if !block.is_null() {
            // SAFETY: both are at least so long.
            unsafe { libc::memcpy(block, old, bytes.min(next::early_room(old))) };
        }
        return block;
    }
    let ends = !old.is_null() && ended(Kind::ReallocFrom, old, bytes);
    let block = ask!(realloc(old, bytes), next::early(bytes));
    if !ends {
        begun(Kind::Malloc, block, bytes, 0);
        return block;
    }
    if let Some(header) = shared() {
        let kind = match block.is_null() {
            // It was freed, by the rule of most allocators.
            true if bytes == 0 => Kind::ReallocAway,
            true => Kind::ReallocFailed,
            false if is_sampled(header, block) => Kind::ReallocTo,
            false => Kind::ReallocAway,
        };
        put(header, kind, block as u64, bytes as u64 & LOW);
    }
    block
}

/// By our realloc: no allocator's own is more than that.
#[unsafe(no_mangle)]
extern "C" fn reallocarray(old: Block, count: usize, bytes: usize) -> Block {
    match count.checked_mul(bytes) {
        Some(total) => realloc(old, total),
        None => refuse(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn memalign(alignment: usize, bytes: usize) -> Block {
    let block = ask!(memalign(alignment, bytes), refuse());
    begun(Kind::Aligned, block, bytes, alignment);
    block
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> Block {
    let block = ask!(aligned_alloc(alignment, bytes), refuse());
    begun(Kind::Aligned, block, bytes, alignment);
    block
}

#[unsafe(no_mangle)]
extern "C" fn posix_memalign(place: *mut Block, alignment: usize, bytes: usize) -> c_int {
    let Some(function) = next::posix_memalign().or_else(|| is_found().then(next::posix_memalign).flatten())
    else {
        return libc::ENOMEM;
    };
    // SAFETY: the caller keeps the function's rules.
    let error = unsafe { function(place, alignment, bytes) };
    if error == 0 {
        // SAFETY: it has just been written.
        begun(Kind::Aligned, unsafe { *place }, bytes, alignment);
    }
    error
}

#[unsafe(no_mangle)]
extern "C" fn valloc(bytes: usize) -> Block {
    let block = ask!(valloc(bytes), refuse());
    begun(Kind::Aligned, block, bytes, 4096);
    block
}

#[unsafe(no_mangle)]
extern "C" fn pvalloc(bytes: usize) -> Block {
    let block = ask!(pvalloc(bytes), refuse());
    begun(Kind::Aligned, block, bytes.next_multiple_of(4096), 4096);
    block
}
