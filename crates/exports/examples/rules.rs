//! The allocator's rules as Rust has them: sizes, alignments and contents, from threads that free each other's blocks, with a
//! profile that runs. C's blocks are the C library's.
//!
//!     cargo run -p vcmalloc --features stats,profile --example rules

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
}

fn main() {
    assert!(vcmalloc::start_profile(64 << 10), "there is memory for a profile");
    every_layout_is_kept();
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(blocks_travel)).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    let before = vcmalloc::stats().live;
    let text = CString::new(vec![b'x'; 4 << 20]).expect("no zero in it");
    let with_rust = vcmalloc::stats().live;
    // SAFETY: a C string, given back below.
    let copy = black_box(unsafe { strdup(text.as_ptr()) });
    let with_c = vcmalloc::stats().live;
    // SAFETY: strdup's.
    unsafe { free(copy.cast()) };
    println!("rust {} c {}", with_rust >= before + (4 << 20), with_c >= with_rust + (4 << 20));
    vcmalloc::stop_profile();
    let path = std::env::temp_dir().join(format!("vcmalloc-rules-{}.heap", std::process::id()));
    let name = CString::new(path.to_str().expect("a path in UTF-8")).expect("no zero in it");
    assert!(vcmalloc::write_profile(&name), "the profile is written");
    let profile = std::fs::read_to_string(&path).expect("the profile");
    std::fs::remove_file(&path).expect("it is there");
    assert!(profile.starts_with("heap profile:"), "{profile}");
    assert_eq!(vcmalloc::set_option("no_such", "1"), Err(vcmalloc::OptionRefused::UnknownName));
    vcmalloc::release(0);
}

/// Blocks of all forms keep their alignment and their contents when they grow and shrink, and are zero where that is asked.
fn every_layout_is_kept() {
    for align in (0..14).map(|power| 1 << power) {
        for bytes in [1, 7, 16, 100, 1000, 5000, 40_000, 300_000, 3_000_000] {
            let layout = Layout::from_size_align(bytes, align).expect("a layout");
            let grown = Layout::from_size_align(bytes * 2, align).expect("a layout");
            // SAFETY: blocks are used within their sizes and given back as they are.
            unsafe {
                let zeros = ALLOCATOR.alloc_zeroed(layout);
                assert!(zeros.addr().is_multiple_of(align), "{layout:?}");
                assert!((0..bytes).all(|at| *zeros.add(at) == 0), "{layout:?}");
                zeros.write_bytes(0xa5, bytes);
                let more = ALLOCATOR.realloc(zeros, layout, bytes * 2);
                assert!(more.addr().is_multiple_of(align), "{grown:?}");
                assert!((0..bytes).all(|at| *more.add(at) == 0xa5), "{grown:?}");
                let less = ALLOCATOR.realloc(more, grown, bytes);
                assert!((0..bytes).all(|at| *less.add(at) == 0xa5), "{layout:?}");
                ALLOCATOR.dealloc(less, layout);
            }
        }
    }
}

fn blocks_travel() {
    let (give, take) = mpsc::channel::<Vec<u8>>();
    let is_kept = |block: Vec<u8>| block.iter().all(|byte| *byte == 7);
    let other = thread::spawn(move || take.iter().all(is_kept));
    (0..2000).for_each(|round| give.send(vec![7; round * 13 % 4000 + 1]).expect("it listens"));
    drop(give);
    assert!(other.join().expect("it ends"), "contents are kept");
}
