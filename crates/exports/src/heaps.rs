//! Heaps of tenants, as vcmalloc.h has them.

use super::c::{Name, Pointer, address, pointer, set_errno, undisturbed};
use super::{Blocks, blocks, heap};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use vcmalloc_core::class::MIN_ALIGN;
use vcmalloc_core::heap::{Ending, HeapId, Made, NAME_BYTES, OnLimit, Refusal};

/// `struct vcm_heap_options`. `size` is that of the caller's, which may know fewer of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeapOptions {
    size: usize,
    parent: u64,
    limit: usize,
    on_limit: Option<OnLimit>,
    argument: usize,
}

/// `struct vcm_heap_stats`. As above.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeapStats {
    size: usize,
    live: u64,
    live_blocks: u64,
    cached: u64,
    bytes: u64,
    peak: u64,
    limit: u64,
    resident: u64,
    refused: u64,
    age: u64,
    children: u64,
    draining: u64,
    name: [c_char; NAME_BYTES],
    late_frees: u64,
}

/// The alignment of a request that names none: the hardened policy notes what was named.
const UNNAMED: usize = if cfg!(hardened) { 1 } else { MIN_ALIGN };

fn error_of(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::Gone => libc::ENOENT,
        Refusal::HasChildren => libc::EBUSY,
        Refusal::Limit(_) | Refusal::Memory => libc::ENOMEM,
    }
}

fn outcome(ended: Result<(), Refusal>) -> c_int {
    ended.err().map_or(0, error_of)
}

/// # Safety
/// `name` is a C string or null; `options` is null or as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_heap_new(name: Name, options: *const HeapOptions) -> u64 {
    // SAFETY: by the caller's promise.
    let name = if name.is_null() { &[][..] } else { unsafe { CStr::from_ptr(name) }.to_bytes() };
    let mut asked = HeapOptions { size: 0, parent: HeapId::OWN.0, limit: 0, on_limit: None, argument: 0 };
    if !options.is_null() {
        // SAFETY: by the caller's promise: of so many bytes, and no more than we know.
        unsafe {
            let bytes = (*options).size.min(size_of::<HeapOptions>());
            if bytes < size_of::<usize>() {
                set_errno(libc::EINVAL);
                return HeapId::NONE.0;
            }
            ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut asked).cast::<u8>(), bytes);
        }
    }
    let parent = if asked.parent == HeapId::NONE.0 { HeapId::OWN } else { HeapId(asked.parent) };
    let limit = Some(asked.limit).filter(|limit| *limit != 0);
    let made = Made { name, parent, limit, on_limit: asked.on_limit, argument: asked.argument };
    match undisturbed(|| heap().make_heap(made)) {
        Ok(id) => id.0,
        Err(refusal) => {
            set_errno(error_of(refusal));
            HeapId::NONE.0
        }
    }
}

fn answered(taken: Result<usize, Refusal>) -> Pointer {
    match taken {
        Ok(block) => pointer(block),
        Err(refusal) => {
            set_errno(if refusal == Refusal::Gone { libc::EINVAL } else { libc::ENOMEM });
            ptr::null_mut()
        }
    }
}

#[cfg_attr(not(whole_paths), unsafe(no_mangle))]
pub extern "C" fn vcm_heap_malloc(id: u64, bytes: usize) -> Pointer {
    answered(undisturbed(|| blocks().allocate_in(HeapId(id), UNNAMED, bytes)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_calloc(id: u64, count: usize, bytes: usize) -> Pointer {
    match count.checked_mul(bytes) {
        Some(total) => answered(undisturbed(|| blocks().allocate_zeroed_in(HeapId(id), UNNAMED, total))),
        None => answered(Err(Refusal::Memory)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_aligned(id: u64, align: usize, bytes: usize) -> Pointer {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    answered(undisturbed(|| blocks().allocate_in(HeapId(id), align.max(UNNAMED), bytes)))
}

/// The block that it returns is one of the heap, wherever the old one was.
///
/// # Safety
/// `block` is null or a block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_heap_realloc(id: u64, block: Pointer, bytes: usize) -> Pointer {
    if block.is_null() {
        return vcm_heap_malloc(id, bytes);
    }
    if heap().owner_heap(address(block)).unwrap_or(HeapId::OWN) == HeapId(id) {
        let resized = undisturbed(|| blocks().reallocate(address(block), bytes.max(1)));
        return answered(if resized == 0 { Err(Refusal::Memory) } else { Ok(resized) });
    }
    let usable = undisturbed(|| blocks().usable_bytes(address(block)));
    let moved = vcm_heap_malloc(id, bytes);
    if !moved.is_null() {
        // SAFETY: both blocks are at least so long, and do not overlap.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast::<u8>(), usable.min(bytes)) };
        undisturbed(|| blocks().free(address(block)));
    }
    moved
}

/// The heap that a block belongs to; `VCM_HEAP_NONE` where the address is none of ours.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_of(block: Pointer) -> u64 {
    match heap().owner_heap(address(block)) {
        Some(id) => id.0,
        None if !block.is_null() && blocks().owns(address(block)) => HeapId::OWN.0,
        None => HeapId::NONE.0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_push(id: u64) -> u64 {
    heap().push_heap(HeapId(id)).unwrap_or(HeapId::NONE).0
}

/// A heap that has ended meanwhile gives place to the process's own; a push that changed nothing has nothing to undo.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_pop(before: u64) {
    if HeapId(before) == HeapId::NONE {
        return;
    }
    if heap().push_heap(HeapId(before)).is_none() {
        heap().push_heap(HeapId::OWN);
    }
}

/// 0: free all; 1: hand what lives to the parent; 2: wait for what lives; 3: and nobody uses it.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_destroy(id: u64, mode: c_int) -> c_int {
    let how = match mode {
        0 => Ending::FreeAll,
        1 => Ending::HandOver,
        2 => Ending::Drain,
        3 => Ending::Zombie,
        _ => return libc::EINVAL,
    };
    outcome(undisturbed(|| blocks().end_heap(HeapId(id), how)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_reset(id: u64) -> c_int {
    outcome(undisturbed(|| blocks().reset_heap(HeapId(id))))
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_set_limit(id: u64, bytes: usize) -> c_int {
    outcome(heap().set_heap_limit(HeapId(id), Some(bytes).filter(|bytes| *bytes != 0)))
}

/// `u64::MAX`: as long as the process's own.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_set_release_delay(id: u64, nanoseconds: u64) -> c_int {
    outcome(heap().set_heap_delay(HeapId(id), Some(nanoseconds).filter(|time| *time != u64::MAX)))
}

#[unsafe(no_mangle)]
pub extern "C" fn vcm_heap_release(id: u64) -> usize {
    undisturbed(|| heap().release_heap(HeapId(id)))
}

/// # Safety
/// `stats` is null or as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_heap_stats(id: u64, stats: *mut HeapStats) -> c_int {
    // SAFETY: by the caller's promise.
    let room = if stats.is_null() { 0 } else { unsafe { (*stats).size } };
    if room < size_of::<usize>() {
        return libc::EINVAL;
    }
    let Some(found) = undisturbed(|| heap().heap_stats(HeapId(id))) else { return libc::ENOENT };
    let name = heap().heap_name(HeapId(id));
    let told = HeapStats {
        size: room.min(size_of::<HeapStats>()),
        live: found.live,
        live_blocks: found.live_blocks,
        cached: found.cached,
        bytes: found.bytes,
        peak: found.peak,
        limit: found.limit,
        resident: undisturbed(|| heap().heap_resident(HeapId(id))),
        refused: found.refused,
        age: found.age,
        children: found.children,
        draining: u64::from(found.is_draining),
        name: name.map(|byte| byte as c_char),
        late_frees: found.late,
    };
    // SAFETY: by the caller's promise.
    unsafe { ptr::copy_nonoverlapping((&raw const told).cast::<u8>(), stats.cast::<u8>(), told.size) };
    0
}

/// # Safety
/// `take` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_heap_each(take: Option<extern "C" fn(u64, Pointer)>, argument: Pointer) {
    if let Some(take) = take {
        heap().each_heap(|id| take(id.0, argument));
    }
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_heap_each_block(
    id: u64,
    take: Option<extern "C" fn(Pointer, usize, Pointer)>,
    argument: Pointer,
) -> c_int {
    let Some(take) = take else { return libc::EINVAL };
    if heap().heap_stats(HeapId(id)).is_none() {
        return libc::ENOENT;
    }
    blocks().each_block_of(HeapId(id), |block, bytes| take(pointer(block), bytes, argument));
    0
}
