//! The heap that is replayed on: the process's own malloc, or none.

use std::ptr::null_mut;

pub trait Heap {
    /// From page to page of a block when it is touched.
    const STRIDE: usize;
    unsafe fn malloc(bytes: usize) -> *mut u8;
    unsafe fn calloc(bytes: usize) -> *mut u8;
    unsafe fn aligned(log2: u32, bytes: usize) -> *mut u8;
    unsafe fn realloc(block: *mut u8, bytes: usize) -> *mut u8;
    unsafe fn free(block: *mut u8);
}

pub struct Process;

impl Heap for Process {
    const STRIDE: usize = 4096;

    #[inline]
    unsafe fn malloc(bytes: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { libc::malloc(bytes).cast() }
    }

    #[inline]
    unsafe fn calloc(bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { libc::calloc(1, bytes).cast() }
    }

    #[inline]
    unsafe fn aligned(log2: u32, bytes: usize) -> *mut u8 {
        let mut block = null_mut();
        // SAFETY: the place for the result lives; an alignment below a pointer's is raised to it.
        match unsafe { libc::posix_memalign(&raw mut block, 1 << log2.clamp(3, 40), bytes) } {
            0 => block.cast(),
            _ => null_mut(),
        }
    }

    #[inline]
    unsafe fn realloc(block: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's block came from this heap. One of no bytes would be freed.
        unsafe { libc::realloc(block.cast(), bytes.max(1)).cast() }
    }

    #[inline]
    unsafe fn free(block: *mut u8) {
        // SAFETY: the caller's block came from this heap.
        unsafe { libc::free(block.cast()) }
    }
}

/// Gives the same page each time: what is left of a replay without an allocator.
pub struct None;

#[repr(align(4096))]
struct Page(std::cell::UnsafeCell<[u8; 4096]>);
// SAFETY: nobody reads what is written there.
unsafe impl Sync for Page {}
static PAGE: Page = Page(std::cell::UnsafeCell::new([0; 4096]));

impl Heap for None {
    const STRIDE: usize = 0;

    #[inline]
    unsafe fn malloc(_: usize) -> *mut u8 {
        // Away from what other threads touch, as far as their stacks are from each other.
        let here = 0u8;
        let line = (&raw const here as usize >> 17) % 64;
        // SAFETY: within the page.
        unsafe { PAGE.0.get().cast::<u8>().add(line * 64) }
    }

    #[inline]
    unsafe fn calloc(bytes: usize) -> *mut u8 {
        // SAFETY: as `malloc`.
        unsafe { Self::malloc(bytes) }
    }

    #[inline]
    unsafe fn aligned(_: u32, bytes: usize) -> *mut u8 {
        // SAFETY: as `malloc`.
        unsafe { Self::malloc(bytes) }
    }

    #[inline]
    unsafe fn realloc(_: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: as `malloc`.
        unsafe { Self::malloc(bytes) }
    }

    #[inline]
    unsafe fn free(_: *mut u8) {}
}
