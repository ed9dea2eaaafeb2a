//! The functions that are called most, with their fast paths written whole: `vcmalloc_core::cache::fast_path`
//! says how.
//!
//! Each leaves for the function of the same meaning in `malloc` or `cxx`, which does the whole work, the fast
//! path included. Without such sequences, those functions have the names themselves.

#![allow(named_asm_labels, reason = "Rust 1.88 does not know that naked functions are never inlined")]
// The names of operators are the ABI's.
#![allow(non_snake_case)]

use super::c::Pointer;
use super::replaced::{NONE, STATE};
use super::{HEAP, Policy, cxx, heaps, malloc};
use core::arch::naked_asm;
use vcmalloc_core::cache::OWNED;
use vcmalloc_core::class::{BY_SIZE, SizeClass, TABLED_BYTES};
use vcmalloc_core::pages::Span;
use vcmalloc_core::{
    beside_sequences, class_of_request, counted, push_allocated, push_sized, sequences, ways_out,
    ways_out_label, ways_out_of_free,
};

#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.fast")]
extern "C" fn malloc(bytes: usize) -> Pointer {
    naked_asm!(
        ".globl vcm_malloc_here",
        ".hidden vcm_malloc_here",
        "vcm_malloc_here:",
        ".cfi_startproc",
        class_of_request!(),
        sequences!(),
        ".cfi_endproc",
        beside_sequences!(),
        ways_out!("vcm_sequence_pop"),
        counted!(),
        ".p2align 6, 0xcc",
        heap = sym HEAP,
        by_size = sym BY_SIZE,
        slow = sym malloc::plain_malloc,
        direct = const Policy::DIRECT,
        scope = const Policy::SCOPE,
        counts_each = const Policy::COUNTS_EACH,
        cells = const Policy::CELLS,
        last_cell = const Policy::LAST_CELL,
        cell_shift = const Policy::CELL_SHIFT,
        tabled = const TABLED_BYTES,
        cpus = const Policy::CPUS,
        area = const Policy::AREA,
        index = const Policy::INDEX,
        slabs = const Policy::SLABS,
        key = const Policy::KEY,
        last_keyed = const Policy::LAST_KEYED,
        entry_slabs = const Policy::ENTRY_SLABS,
        entry_id = const Policy::ENTRY_ID,
        entries = const Policy::ENTRIES,
        entry_bytes = const Policy::ENTRY_BYTES,
        span_heap = const Span::HEAP,
        owned = const OWNED,
    )
}

/// The form goes on at its slow path unless it is known that the program replaced no simpler one.
macro_rules! unless_replaced {
    () => {
        "cmp dword ptr [rip + {replaced}], {none}
        jne {slow}
        "
    };
}

macro_rules! allocate {
    ($($name:ident $(unless $replaced:ident = $none:ident)?;)+) => { $(
        #[unsafe(naked)]
        #[cfg_attr(shared, unsafe(no_mangle))]
        #[cfg_attr(not(shared), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        #[unsafe(link_section = ".text.fast")]
        extern "C" fn $name(bytes: usize) -> Pointer {
            naked_asm!(
                ".cfi_startproc",
                $(concat!("/* ", stringify!($replaced), " */"), unless_replaced!(),)?
                class_of_request!(),
                "jmp vcm_sequence_pop",
                ".cfi_endproc",
                ways_out!("vcm_sequence_pop"),
                counted!(),
                ".p2align 6, 0xcc",
                $(replaced = sym $replaced, none = const $none,)?
                heap = sym HEAP,
                by_size = sym BY_SIZE,
                slow = sym cxx::$name,
                direct = const Policy::DIRECT,
                scope = const Policy::SCOPE,
                index = const Policy::INDEX,
                counts_each = const Policy::COUNTS_EACH,
                cells = const Policy::CELLS,
                last_cell = const Policy::LAST_CELL,
                cell_shift = const Policy::CELL_SHIFT,
                tabled = const TABLED_BYTES,
            )
        }
    )+ };
}

allocate! {
    _Znwm;
    _Znam unless STATE = NONE;
}

/// The slabs of the heap are found through its entry, and say whose they are. While somebody watches, or the sequences are off, the
/// slow path serves.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.fast")]
extern "C" fn vcm_heap_malloc(id: u64, bytes: usize) -> Pointer {
    naked_asm!(
        ".cfi_startproc",
        "lea rdx, [rsi - 1]
        cmp rdx, {tabled} - 1
        ja {slow}
        mov eax, edi
        test eax, eax
        jz {slow}
        cmp eax, [rip + {heap} + {entry_count}]
        jae {slow}
        cmp byte ptr [rip + {heap} + {is_watched}], 0
        jne {slow}
        cmp dword ptr [rip + {heap} + {cpus}], 0
        je {slow}
        imul rax, rax, {entry_bytes}
        add rax, [rip + {heap} + {entries}]
        mov r11, rax
        lea eax, [rsi + 15]
        shr eax, 4
        lea rcx, [rip + {by_size}]
        movzx ecx, byte ptr [rcx + rax]",
        concat!("lea r10, [rip + ", ways_out_label!(), "f]"),
        "jmp vcm_heap_pop_of",
        ".cfi_endproc",
        ways_out!("vcm_heap_pop_of"),
        ".p2align 6, 0xcc",
        heap = sym HEAP,
        by_size = sym BY_SIZE,
        slow = sym heaps::vcm_heap_malloc,
        tabled = const TABLED_BYTES,
        is_watched = const Policy::IS_WATCHED,
        cpus = const Policy::CPUS,
        entries = const Policy::ENTRIES,
        entry_count = const Policy::ENTRY_COUNT,
        entry_bytes = const Policy::ENTRY_BYTES,
    )
}

macro_rules! free {
    ($($(#[$export:meta])+ $name:ident = $slow:path $(, unless $replaced:ident = $none:ident)?;)+) => { $(
        #[unsafe(naked)]
        $(#[$export])+
        #[unsafe(link_section = ".text.fast")]
        extern "C" fn $name(block: Pointer) {
            naked_asm!(
                ".cfi_startproc",
                $(concat!("/* ", stringify!($replaced), " */"), unless_replaced!(),)?
                push_allocated!(),
                ".cfi_endproc",
                ways_out_of_free!(),
                ".p2align 6, 0xcc",
                $(replaced = sym $replaced, none = const $none,)?
                heap = sym HEAP,
                slow = sym $slow,
                start = const Policy::START,
                grown_granules = const Policy::GROWN_GRANULES,
                allocated = const Policy::ALLOCATED,
                class_of_unit = const Policy::CLASS_OF_UNIT,
                large = const SizeClass::LARGE.index(),
                owners = const Policy::OWNERS,
                spans = const Policy::SPANS,
                span_bytes = const size_of::<Span>(),
                span_class = const Span::CLASS,
                cpus = const Policy::CPUS,
            )
        }
    )+ };
}

free! {
    #[unsafe(no_mangle)]
    free = malloc::plain_free;
    #[cfg_attr(shared, unsafe(no_mangle))]
    #[cfg_attr(not(shared), unsafe(export_name = "vcm__ZdlPv"))]
    _ZdlPv = cxx::_ZdlPv;
    #[cfg_attr(shared, unsafe(no_mangle))]
    #[cfg_attr(not(shared), unsafe(export_name = "vcm__ZdaPv"))]
    _ZdaPv = cxx::_ZdaPv, unless STATE = NONE;
}

macro_rules! free_sized {
    ($($name:ident;)+) => { $(
        #[unsafe(naked)]
        #[cfg_attr(shared, unsafe(no_mangle))]
        #[cfg_attr(not(shared), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        #[unsafe(link_section = ".text.fast")]
        extern "C" fn $name(block: Pointer, bytes: usize) {
            naked_asm!(
                ".cfi_startproc",
                unless_replaced!(),
                push_sized!(),
                ".cfi_endproc",
                ways_out_of_free!(),
                ".p2align 6, 0xcc",
                replaced = sym STATE,
                none = const NONE,
                heap = sym HEAP,
                by_size = sym BY_SIZE,
                slow = sym cxx::$name,
                tabled = const TABLED_BYTES,
                start = const Policy::START,
                grown_granules = const Policy::GROWN_GRANULES,
                allocated = const Policy::ALLOCATED,
                class_of_unit = const Policy::CLASS_OF_UNIT,
                large = const SizeClass::LARGE.index(),
                owners = const Policy::OWNERS,
                spans = const Policy::SPANS,
                span_bytes = const size_of::<Span>(),
                span_class = const Span::CLASS,
                cpus = const Policy::CPUS,
            )
        }
    )+ };
}

free_sized! {
    _ZdlPvm;
    _ZdaPvm;
}
