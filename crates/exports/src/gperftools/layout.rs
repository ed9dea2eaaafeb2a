//! class MallocExtension and class SysAllocator as the Itanium C++ ABI lays them out: an object begins with a
//! pointer to its virtual functions, before which stand the offset to the top and the type's description.
//!
//! In Rust because a Rust library exports only what Rust defines. The order of `Methods` is the order of the
//! declarations in gperftools' malloc_extension.h; callers have it compiled in.

use crate::c::Name;
use core::ffi::{c_char, c_int, c_void};

/// A MallocExtension, ours or one that a program registered.
#[repr(C)]
pub struct Extension {
    pub methods: &'static Methods,
}

pub type This = *mut Extension;
pub type Block = *const c_void;
/// base::MallocRange.
#[repr(C)]
pub struct MallocRange {
    pub address: usize,
    pub length: usize,
    pub kind: c_int,
    pub fraction: f64,
}
pub type RangeFunction = extern "C" fn(*mut c_void, *const MallocRange);
/// std::string and std::vector<FreeListInfo>, which only C++ looks into.
pub type StdString = *mut c_void;
pub type StdVector = *mut c_void;

#[repr(C)]
pub struct Methods {
    pub complete_destructor: extern "C" fn(This),
    pub deleting_destructor: extern "C" fn(This),
    pub verify_all_memory: extern "C" fn(This) -> bool,
    pub verify_new_memory: extern "C" fn(This, Block) -> bool,
    pub verify_array_new_memory: extern "C" fn(This, Block) -> bool,
    pub verify_malloc_memory: extern "C" fn(This, Block) -> bool,
    pub malloc_memory_stats: unsafe extern "C" fn(This, *mut c_int, *mut usize, *mut c_int) -> bool,
    pub get_stats: unsafe extern "C" fn(This, *mut c_char, c_int),
    pub get_heap_sample: unsafe extern "C" fn(This, StdString),
    pub get_heap_growth_stacks: unsafe extern "C" fn(This, StdString),
    pub ranges: extern "C" fn(This, *mut c_void, RangeFunction),
    pub get_numeric_property: unsafe extern "C" fn(This, Name, *mut usize) -> bool,
    pub set_numeric_property: unsafe extern "C" fn(This, Name, usize) -> bool,
    pub mark_thread_idle: extern "C" fn(This),
    pub mark_thread_busy: extern "C" fn(This),
    pub get_system_allocator: extern "C" fn(This) -> *mut c_void,
    pub set_system_allocator: extern "C" fn(This, *mut c_void),
    pub release_to_system: extern "C" fn(This, usize),
    pub release_free_memory: extern "C" fn(This),
    pub set_memory_release_rate: extern "C" fn(This, f64),
    pub get_memory_release_rate: extern "C" fn(This) -> f64,
    pub get_estimated_allocated_size: extern "C" fn(This, usize) -> usize,
    pub get_allocated_size: extern "C" fn(This, Block) -> usize,
    pub get_ownership: extern "C" fn(This, Block) -> c_int,
    pub get_free_list_sizes: unsafe extern "C" fn(This, StdVector),
    pub read_stack_traces: unsafe extern "C" fn(This, *mut c_int) -> *mut *mut c_void,
    pub read_heap_growth_stack_traces: extern "C" fn(This) -> *mut *mut c_void,
    pub get_thread_cache_size: extern "C" fn(This) -> usize,
    pub mark_thread_temporarily_idle: extern "C" fn(This),
}

/// The type's description (`std::type_info` of a class without bases).
#[repr(C)]
pub struct TypeInfo {
    methods: *const usize,
    name: *const c_char,
}

#[repr(C)]
pub struct Table<M> {
    pub offset_to_top: isize,
    pub type_info: &'static TypeInfo,
    pub methods: M,
}

// SAFETY: all of it is constant.
unsafe impl Sync for TypeInfo {}

// libstdc++ is not linked, and a program without it never looks into a type's description: there the
// reference is null.
core::arch::global_asm!(".weak _ZTVN10__cxxabiv117__class_type_infoE");
unsafe extern "C" {
    #[link_name = "_ZTVN10__cxxabiv117__class_type_infoE"]
    static CLASS_TYPE_INFO: [usize; 4];
}

/// A type's description points behind the two words before the functions. Not a constant: the compiler (1.95)
/// forgets the offset of one that points into a foreign static.
pub const fn type_info(name: *const c_char) -> TypeInfo {
    // SAFETY: the table of a C++ class has more than two words.
    TypeInfo { methods: unsafe { (&raw const CLASS_TYPE_INFO).cast::<usize>().add(2) }, name }
}

/// Programs derive their own allocators of system memory from this class, whose one function is theirs to
/// define.
#[repr(C)]
pub struct AllocatorMethods {
    pub complete_destructor: extern "C" fn(This),
    pub deleting_destructor: extern "C" fn(This),
    pub allocate: extern "C" fn() -> !,
}
