//! Whose blocks are they? A program whose three halves allocate, Rust, C (inside the C library) and C++, and what the heap of
//! the crate says that it holds for each.
//!
//!     cargo run -p vcmalloc --features override,stats --example halves

use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;

const BYTES: usize = 4 << 20;

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
    #[link_name = "_Znwm"]
    fn operator_new(bytes: usize) -> *mut c_void;
    #[link_name = "_ZdlPv"]
    fn operator_delete(block: *mut c_void);
}

/// How many bytes more live after `allocate` than before it; its result is alive until then.
fn grown<R>(allocate: impl FnOnce() -> R) -> (R, u64) {
    let before = vcmalloc::stats().live;
    let block = black_box(allocate());
    (block, vcmalloc::stats().live.saturating_sub(before))
}

fn main() {
    let (rust, of_rust) = grown(|| vec![b'x'; BYTES]);
    let text = CString::new(rust).expect("no zero in it");
    // SAFETY: a C string.
    let (c, of_c) = grown(|| unsafe { strdup(text.as_ptr()) });
    // SAFETY: any size may be asked for.
    let (cpp, of_cpp) = grown(|| unsafe { operator_new(BYTES) });
    // SAFETY: each goes back the way that it came.
    unsafe {
        free(c.cast());
        operator_delete(cpp);
    }
    println!("rust {} c {} c++ {}", of_rust >= BYTES as u64, of_c >= BYTES as u64, of_cpp >= BYTES as u64);
    println!("{}", vcmalloc::statistics_text());
}
