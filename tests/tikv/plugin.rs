//! A library with a copy of the crate of its own: its heap is not the program's.

use tikv_jemalloc_ctl::{raw, thread};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An option that the program has set for its own copy.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_option() -> isize {
    // SAFETY: the name is of this type.
    unsafe { raw::read(b"opt.muzzy_decay_ms\0") }.unwrap_or(-3)
}

/// The bytes that this thread took by this copy, for some that it asks for.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_takes(bytes: usize) -> u64 {
    let taken = thread::allocatedp::read().expect("a count");
    let before = taken.get();
    drop(std::hint::black_box(vec![1u8; bytes]));
    taken.get() - before
}
