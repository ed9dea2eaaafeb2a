//! The C heap as a program that knows nothing of allocators calls it.
//!
//! Every call goes to the dynamic symbol, so LD_PRELOAD decides who answers, and every pointer passes through
//! `opaque`, so the compiler can neither drop a malloc/free pair nor move the write between them.

use std::arch::asm;
use std::ffi::c_void;

/// A block, or null. Not `NonNull`: an empty slot is null and `free` takes it, as in C.
pub type Block = *mut u8;

/// The same pointer, but the compiler has to assume that someone else has seen and changed what it points to.
/// Stays in a register: `std::hint::black_box` may go through memory and would add its latency to every pair.
#[inline(always)]
fn opaque(block: *mut c_void) -> *mut c_void {
    let mut block = block;
    // SAFETY: no instruction at all; without `nomem`, so that it counts as a read and write of all memory.
    unsafe { asm!("/* {0} */", inout(reg) block, options(nostack, preserves_flags)) };
    block
}

#[cold]
fn out_of_memory(bytes: usize) -> ! {
    eprintln!(
        "vcm-load: the allocator under test refused {bytes} bytes; give it more memory or fewer threads"
    );
    std::process::exit(3)
}

#[inline(always)]
fn checked(block: *mut c_void, bytes: usize) -> Block {
    if block.is_null() {
        out_of_memory(bytes);
    }
    opaque(block).cast()
}

/// A block whose content is not touched.
#[inline(always)]
pub fn allocate(bytes: usize) -> Block {
    // SAFETY: malloc takes any size.
    checked(unsafe { libc::malloc(bytes) }, bytes)
}

#[inline(always)]
pub fn allocate_zeroed(bytes: usize) -> Block {
    // SAFETY: calloc takes any sizes.
    checked(unsafe { libc::calloc(1, bytes) }, bytes)
}

/// `alignment` is a power of two and at least 8.
#[inline(always)]
pub fn allocate_aligned(alignment: usize, bytes: usize) -> Block {
    let mut block = std::ptr::null_mut();
    // SAFETY: `block` is a valid place for the result.
    let refused = unsafe { libc::posix_memalign(&mut block, alignment, bytes) };
    checked(if refused == 0 { block } else { std::ptr::null_mut() }, bytes)
}

/// # Safety
/// `block` is null or a live block of this heap, and nobody uses it afterwards.
#[inline(always)]
pub unsafe fn reallocate(block: Block, bytes: usize) -> Block {
    // SAFETY: as the caller promises.
    checked(unsafe { libc::realloc(opaque(block.cast()), bytes) }, bytes)
}

/// # Safety
/// `block` is null or a live block of this heap, and nobody uses it afterwards.
#[inline(always)]
pub unsafe fn release(block: Block) {
    // SAFETY: as the caller promises.
    unsafe { libc::free(opaque(block.cast())) };
}

/// Writes one byte, as the least that a program does with a block: it makes one page resident.
///
/// # Safety
/// `block` is a live block of more than `offset` bytes.
#[inline(always)]
pub unsafe fn touch(block: Block, offset: usize) {
    // SAFETY: as the caller promises.
    unsafe { block.add(offset).write_volatile(offset as u8 | 1) };
}

/// Writes the first byte of each page of a block, as a program that fills its buffer would make it resident.
///
/// # Safety
/// `block` is a live block of `bytes` bytes.
#[inline(always)]
pub unsafe fn touch_pages(block: Block, bytes: usize) {
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: `offset` is below `bytes`.
        unsafe { touch(block, offset) };
    }
}

/// The file that answers `malloc` in this process, or what is known instead.
pub fn malloc_object() -> String {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address and fills the structure if it returns non-zero; the name lives as long
    // as the object stays loaded, and malloc's never goes.
    unsafe {
        if libc::dladdr(libc::malloc as *const c_void, &mut found) == 0 || found.dli_fname.is_null() {
            return "unknown".to_owned();
        }
        std::ffi::CStr::from_ptr(found.dli_fname).to_string_lossy().into_owned()
    }
}
