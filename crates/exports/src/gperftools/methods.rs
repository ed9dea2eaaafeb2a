//! The virtual functions of MallocExtension, by their mangled names: programs that derive from the class call
//! them so.

use super::layout::{Block, MallocRange, Methods, RangeFunction, StdString, StdVector, This};
use super::{profile, properties, rate, report};
use crate::c::{Name, address};
use crate::malloc::plain_free as free;
use crate::{Blocks, blocks, heap};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::slice;
use vcmalloc_core::base::text::Sink;
use vcmalloc_core::class::SizeClass;
use vcmalloc_core::heap::{LARGEST_REQUEST, RangeState};

pub const METHODS: Methods = Methods {
    complete_destructor: ends,
    deleting_destructor: is_deleted,
    verify_all_memory,
    verify_new_memory,
    verify_array_new_memory,
    verify_malloc_memory,
    malloc_memory_stats,
    get_stats,
    get_heap_sample,
    get_heap_growth_stacks,
    ranges,
    get_numeric_property,
    set_numeric_property,
    mark_thread_idle,
    mark_thread_busy,
    get_system_allocator,
    set_system_allocator,
    release_to_system,
    release_free_memory,
    set_memory_release_rate,
    get_memory_release_rate,
    get_estimated_allocated_size,
    get_allocated_size,
    get_ownership,
    get_free_list_sizes,
    read_stack_traces,
    read_heap_growth_stack_traces,
    get_thread_cache_size,
    mark_thread_temporarily_idle,
};

unsafe extern "C" {
    /// containers.cc.
    fn vcm_string_append(string: StdString, text: *const c_char, bytes: usize);
    fn vcm_free_list_clear(vector: StdVector);
    fn vcm_free_list_append(vector: StdVector, least: usize, most: usize, bytes: usize, kind: Name);
}

/// A std::string of the program as a place for text.
struct StringSink(StdString);

impl Sink for StringSink {
    fn put(&mut self, bytes: &[u8]) {
        // SAFETY: the caller of the method passed a string.
        unsafe { vcm_string_append(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

#[unsafe(export_name = "_ZN15MallocExtensionD1Ev")]
extern "C" fn ends(_: This) {}
#[unsafe(export_name = "_ZN15MallocExtensionD2Ev")]
extern "C" fn base_ends(_: This) {}
#[unsafe(export_name = "_ZN15MallocExtensionD0Ev")]
extern "C" fn is_deleted(this: This) {
    free(this.cast());
}

/// Brings every cached block back to its span, which finds those that were freed twice and stops the process.
#[unsafe(export_name = "_ZN15MallocExtension15VerifyAllMemoryEv")]
extern "C" fn verify_all_memory(_: This) -> bool {
    blocks().audit();
    true
}

/// A block of another allocator, or none, stops the process as `free` would.
#[unsafe(export_name = "_ZN15MallocExtension15VerifyNewMemoryEPKv")]
extern "C" fn verify_new_memory(_: This, block: Block) -> bool {
    verify(block)
}

#[unsafe(export_name = "_ZN15MallocExtension20VerifyArrayNewMemoryEPKv")]
extern "C" fn verify_array_new_memory(_: This, block: Block) -> bool {
    verify(block)
}

#[unsafe(export_name = "_ZN15MallocExtension18VerifyMallocMemoryEPKv")]
extern "C" fn verify_malloc_memory(_: This, block: Block) -> bool {
    verify(block)
}

fn verify(block: Block) -> bool {
    blocks().usable_bytes(address(block.cast_mut()));
    true
}

/// # Safety
/// The numbers are valid for writing, the histogram for 64 of them.
#[unsafe(export_name = "_ZN15MallocExtension17MallocMemoryStatsEPiPmS0_")]
unsafe extern "C" fn malloc_memory_stats(
    _: This,
    blocks: *mut c_int,
    total: *mut usize,
    histogram: *mut c_int,
) -> bool {
    const BUCKETS: usize = 64;
    // SAFETY: by the caller's promise.
    let counts = unsafe {
        *blocks = 0;
        *total = 0;
        slice::from_raw_parts_mut(histogram, BUCKETS)
    };
    counts.fill(0);
    let mut all: u64 = 0;
    for class in SizeClass::all() {
        let of = heap().class_stats(class);
        if let Some(bucket) = of.block_bytes.checked_ilog2().and_then(|power| counts.get_mut(power as usize))
        {
            *bucket = bucket.saturating_add(of.live_blocks as c_int);
        }
        all += of.live_blocks;
    }
    // SAFETY: by the caller's promise.
    unsafe {
        *blocks = c_int::try_from(all).unwrap_or(c_int::MAX);
        *total = (heap().tiers().live + heap().guarded_live()) as usize;
    }
    true
}

/// # Safety
/// The buffer has room for `length` bytes.
#[unsafe(export_name = "_ZN15MallocExtension8GetStatsEPci")]
unsafe extern "C" fn get_stats(_: This, buffer: *mut c_char, length: c_int) {
    let Ok(length) = usize::try_from(length) else { return };
    if !buffer.is_null() && length > 0 {
        // SAFETY: by the caller's promise.
        report::write(unsafe { slice::from_raw_parts_mut(buffer.cast(), length) });
    }
}

/// # Safety
/// `string` is a std::string.
#[unsafe(export_name = "_ZN15MallocExtension13GetHeapSampleEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE")]
unsafe extern "C" fn get_heap_sample(_: This, string: StdString) {
    profile::put(&mut StringSink(string));
}

/// # Safety
/// `string` is a std::string.
#[unsafe(export_name = "_ZN15MallocExtension19GetHeapGrowthStacksEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE")]
unsafe extern "C" fn get_heap_growth_stacks(_: This, string: StdString) {
    profile::put_growth(&mut StringSink(string));
}

#[unsafe(export_name = "_ZN15MallocExtension6RangesEPvPFvS0_PKN4base11MallocRangeEE")]
extern "C" fn ranges(_: This, argument: *mut c_void, take: RangeFunction) {
    const IN_USE: c_int = 0;
    const FREE: c_int = 1;
    const UNMAPPED: c_int = 2;
    heap().each_range(|range| {
        let (kind, fraction) = match range.state {
            RangeState::InUse { bytes } => (IN_USE, bytes as f64 / range.bytes as f64),
            RangeState::Free => (FREE, 0.0),
            RangeState::GivenBack => (UNMAPPED, 0.0),
        };
        take(argument, &MallocRange { address: range.address, length: range.bytes, kind, fraction });
    });
}

/// # Safety
/// `name` is a C string; `value` is valid for writing.
#[unsafe(export_name = "_ZN15MallocExtension18GetNumericPropertyEPKcPm")]
unsafe extern "C" fn get_numeric_property(_: This, name: Name, value: *mut usize) -> bool {
    if name.is_null() || value.is_null() {
        return false;
    }
    // SAFETY: by the caller's promise.
    let known = properties::get(unsafe { CStr::from_ptr(name) }.to_bytes());
    if let Some(answer) = known {
        // SAFETY: by the caller's promise.
        unsafe { *value = answer as usize };
    }
    known.is_some()
}

/// # Safety
/// `name` is a C string.
#[unsafe(export_name = "_ZN15MallocExtension18SetNumericPropertyEPKcm")]
unsafe extern "C" fn set_numeric_property(_: This, name: Name, value: usize) -> bool {
    // SAFETY: by the caller's promise.
    !name.is_null() && properties::set(unsafe { CStr::from_ptr(name) }.to_bytes(), value as u64)
}

// Caches belong to virtual CPUs: a thread that sleeps holds nothing that could be released, and one that
// wakes up needs nothing first.
#[unsafe(export_name = "_ZN15MallocExtension14MarkThreadIdleEv")]
extern "C" fn mark_thread_idle(_: This) {}
#[unsafe(export_name = "_ZN15MallocExtension14MarkThreadBusyEv")]
extern "C" fn mark_thread_busy(_: This) {}
#[unsafe(export_name = "_ZN15MallocExtension25MarkThreadTemporarilyIdleEv")]
extern "C" fn mark_thread_temporarily_idle(_: This) {}
#[unsafe(export_name = "_ZN15MallocExtension18GetThreadCacheSizeEv")]
extern "C" fn get_thread_cache_size(_: This) -> usize {
    0
}

/// There is no pluggable allocator of system memory.
#[unsafe(export_name = "_ZN15MallocExtension18GetSystemAllocatorEv")]
extern "C" fn get_system_allocator(_: This) -> *mut c_void {
    core::ptr::null_mut()
}

#[unsafe(export_name = "_ZN15MallocExtension18SetSystemAllocatorEP12SysAllocator")]
extern "C" fn set_system_allocator(_: This, _: *mut c_void) {
    static SAID: super::say::Once = super::say::Once::new();
    SAID.say(&["SetSystemAllocator has no effect here: the heap takes its memory from mmap"]);
}

#[unsafe(export_name = "_ZN15MallocExtension15ReleaseToSystemEm")]
extern "C" fn release_to_system(_: This, bytes: usize) {
    rate::release(bytes);
}

#[unsafe(export_name = "_ZN15MallocExtension17ReleaseFreeMemoryEv")]
extern "C" fn release_free_memory(_: This) {
    rate::release(usize::MAX);
}

#[unsafe(export_name = "_ZN15MallocExtension20SetMemoryReleaseRateEd")]
extern "C" fn set_memory_release_rate(_: This, rate: f64) {
    rate::set(rate);
}

#[unsafe(export_name = "_ZN15MallocExtension20GetMemoryReleaseRateEv")]
extern "C" fn get_memory_release_rate(_: This) -> f64 {
    rate::get()
}

#[unsafe(export_name = "_ZN15MallocExtension25GetEstimatedAllocatedSizeEm")]
extern "C" fn get_estimated_allocated_size(_: This, bytes: usize) -> usize {
    if bytes > LARGEST_REQUEST { 0 } else { blocks().block_bytes_for(bytes, 1) }
}

#[unsafe(export_name = "_ZN15MallocExtension16GetAllocatedSizeEPKv")]
extern "C" fn get_allocated_size(_: This, block: Block) -> usize {
    blocks().usable_bytes(address(block.cast_mut()))
}

#[unsafe(export_name = "_ZN15MallocExtension12GetOwnershipEPKv")]
extern "C" fn get_ownership(_: This, block: Block) -> c_int {
    const OWNED: c_int = 1;
    const NOT_OWNED: c_int = 2;
    if blocks().owns(address(block.cast_mut())) { OWNED } else { NOT_OWNED }
}

/// # Safety
/// `vector` is a std::vector of FreeListInfo.
#[unsafe(export_name = "_ZN15MallocExtension16GetFreeListSizesEPSt6vectorINS_12FreeListInfoESaIS1_EE")]
unsafe extern "C" fn get_free_list_sizes(_: This, vector: StdVector) {
    // SAFETY: by the caller's promise.
    unsafe { vcm_free_list_clear(vector) };
    let append = |least: u64, most: u64, bytes: u64, kind: &'static CStr| {
        // SAFETY: by the caller's promise.
        unsafe { vcm_free_list_append(vector, least as usize, most as usize, bytes as usize, kind.as_ptr()) };
    };
    let mut least = 1;
    for class in SizeClass::all() {
        let of = heap().class_stats(class);
        for (blocks, kind) in [
            (of.free_blocks, c"tcmalloc.central"),
            (of.transfer_blocks, c"tcmalloc.transfer"),
            (of.cached_blocks, c"tcmalloc.thread"),
        ] {
            append(least, of.block_bytes, blocks * of.block_bytes, kind);
        }
        least = of.block_bytes + 1;
    }
    let committed = heap().committed();
    append(least, i64::MAX as u64, committed.free, c"tcmalloc.large");
    append(least, i64::MAX as u64, committed.uncommitted(), c"tcmalloc.large_unmapped");
}

/// # Safety
/// `period` is valid for writing.
#[unsafe(export_name = "_ZN15MallocExtension15ReadStackTracesEPi")]
unsafe extern "C" fn read_stack_traces(_: This, period: *mut c_int) -> *mut *mut c_void {
    let (traces, mean) = profile::traces();
    // SAFETY: by the caller's promise.
    unsafe { *period = c_int::try_from(mean).unwrap_or(c_int::MAX) };
    traces
}

/// Growth of the heap is not recorded: null says that there are no results.
#[unsafe(export_name = "_ZN15MallocExtension25ReadHeapGrowthStackTracesEv")]
extern "C" fn read_heap_growth_stack_traces(_: This) -> *mut *mut c_void {
    core::ptr::null_mut()
}
