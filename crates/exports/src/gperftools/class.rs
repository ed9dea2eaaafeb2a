//! The objects of class MallocExtension and class SysAllocator: their tables, and the registered extension.

use super::layout::{AllocatorMethods, Extension, Methods, Table, This, TypeInfo, type_info};
use super::{methods, theirs};
use crate::c::Pointer;
use core::sync::atomic::{AtomicPtr, Ordering};

#[unsafe(export_name = "_ZTS15MallocExtension")]
pub static EXTENSION_NAME: [u8; 18] = *b"15MallocExtension\0";
#[unsafe(export_name = "_ZTI15MallocExtension")]
pub static EXTENSION_TYPE: TypeInfo = type_info((&raw const EXTENSION_NAME).cast());
#[unsafe(export_name = "_ZTS12SysAllocator")]
pub static ALLOCATOR_NAME: [u8; 15] = *b"12SysAllocator\0";
#[unsafe(export_name = "_ZTI12SysAllocator")]
pub static ALLOCATOR_TYPE: TypeInfo = type_info((&raw const ALLOCATOR_NAME).cast());

#[unsafe(export_name = "_ZTV15MallocExtension")]
pub static EXTENSION: Table<Methods> =
    Table { offset_to_top: 0, type_info: &EXTENSION_TYPE, methods: methods::METHODS };

#[unsafe(export_name = "_ZTV12SysAllocator")]
pub static ALLOCATOR: Table<AllocatorMethods> = Table {
    offset_to_top: 0,
    type_info: &ALLOCATOR_TYPE,
    methods: AllocatorMethods {
        complete_destructor: allocator_ends,
        deleting_destructor: allocator_is_deleted,
        allocate: pure_virtual,
    },
};

#[unsafe(export_name = "_ZN12SysAllocatorD1Ev")]
extern "C" fn allocator_ends(_: This) {}
#[unsafe(export_name = "_ZN12SysAllocatorD2Ev")]
extern "C" fn allocator_base_ends(_: This) {}
#[unsafe(export_name = "_ZN12SysAllocatorD0Ev")]
extern "C" fn allocator_is_deleted(this: This) {
    crate::malloc::plain_free(this.cast());
}

extern "C" fn pure_virtual() -> ! {
    use vcmalloc_core::os::Os;
    crate::heap().os().abort()
}

static OWN: Extension = Extension { methods: &EXTENSION.methods };
static REGISTERED: AtomicPtr<Extension> = AtomicPtr::new(core::ptr::null_mut());

/// The extension that the program registered last, or ours.
#[unsafe(export_name = "_ZN15MallocExtension8instanceEv")]
pub extern "C" fn instance() -> This {
    match REGISTERED.load(Ordering::Acquire) {
        none if none.is_null() => (&raw const OWN).cast_mut(),
        registered => registered,
    }
}

/// The extension of a gperftools library that was loaded beside ours knows of no block that anybody has: it is
/// not taken.
///
/// # Safety
/// The extension is null or lives as long as it is registered.
#[unsafe(export_name = "_ZN15MallocExtension8RegisterEPS_")]
unsafe extern "C" fn register(extension: This) {
    // SAFETY: by the caller's promise null or an object, which begins with the address of its functions.
    let methods = unsafe { extension.cast::<Pointer>().as_ref() };
    if !methods.is_some_and(|methods| theirs::owns(*methods)) {
        REGISTERED.store(extension, Ordering::Release);
    }
}

/// Nothing is left to set up.
#[unsafe(export_name = "_ZN15MallocExtension10InitializeEv")]
extern "C" fn initialize() {}
