//! Memory for the load program's own tables, straight from the kernel, so that the allocator under test sees
//! only the calls of the pattern.

/// A zeroed array that lives until the process ends. Exits with a message if the kernel refuses.
///
/// `T` must be valid when all its bytes are zero; the private trait below lists the types that are.
pub fn zeroed_array<T: Zeroable>(count: usize) -> &'static mut [T] {
    let bytes = (count * size_of::<T>()).max(1);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        eprintln!("vcm-load: the kernel refused {bytes} bytes for the load program's own tables");
        std::process::exit(3);
    }
    // SAFETY: page-aligned, `count` elements long, zero is a valid T, and nobody else knows the address.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), count) }
}

/// # Safety
/// A value of all zero bytes is valid.
pub unsafe trait Zeroable {}
// SAFETY: null is a valid raw pointer, and zero a valid number.
unsafe impl Zeroable for super::c_heap::Block {}
// SAFETY: zero is a valid number.
unsafe impl Zeroable for u32 {}
// SAFETY: zero is a valid number.
unsafe impl Zeroable for u8 {}
