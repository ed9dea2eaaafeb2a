//! A program whose Rust and C code is on the crate's heap, while libc's malloc and a library with a copy of the crate are on others.
//! All names are exported to libraries.

use std::ffi::{CString, c_void};
use std::hint::black_box;
use tikv_jemalloc_ctl::{raw, thread};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: &[u8] = b"muzzy_decay_ms:4242,dirty_decay_ms:1\0";

unsafe extern "C" {
    fn half_takes(bytes: usize) -> *mut c_void;
}

const BYTES: usize = 100_000;

/// The bytes that this thread takes of the program's heap meanwhile.
fn taken(act: impl FnOnce()) -> u64 {
    let count = thread::allocatedp::read().expect("a count");
    let before = count.get();
    act();
    count.get() - before
}

fn is_about(bytes: u64) -> bool {
    (BYTES as u64..2 * BYTES as u64).contains(&bytes)
}

/// The bytes that it took, and its option.
fn plugin_takes(path: &str) -> (u64, isize) {
    let path = CString::new(path).expect("a path");
    // SAFETY: the library's functions are of these types.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!library.is_null());
        let takes = libc::dlsym(library, c"plugin_takes".as_ptr());
        let option = libc::dlsym(library, c"plugin_option".as_ptr());
        assert!(!takes.is_null() && !option.is_null());
        let takes = std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> u64>(takes);
        let option = std::mem::transmute::<*mut c_void, extern "C" fn() -> isize>(option);
        (takes(BYTES), option())
    }
}

fn child_lives() -> bool {
    // SAFETY: the child allocates and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let sum: usize = (0..1000).map(|size| black_box(vec![1u8; size]).len()).sum();
            libc::_exit(i32::from(sum != 499_500));
        }
        let mut status = 1;
        libc::waitpid(child, &mut status, 0) == child && status == 0
    }
}

fn main() {
    // SAFETY: the names are of this type.
    let (muzzy, dirty) = unsafe {
        (raw::read::<isize>(b"opt.muzzy_decay_ms\0"), raw::read::<isize>(b"opt.dirty_decay_ms\0"))
    };
    println!("options {:?} {:?}", muzzy.ok(), dirty.ok());
    println!("rust {}", is_about(taken(|| drop(black_box(vec![1u8; BYTES])))));
    // SAFETY: each block goes back where it was taken.
    println!("libc {}", taken(|| unsafe { libc::free(black_box(libc::malloc(BYTES))) }));
    let half = taken(|| unsafe {
        let block = half_takes(BYTES);
        assert!(!block.is_null() && block.addr().is_multiple_of(64) && *block.cast::<u8>() == 0);
        tikv_jemalloc_sys::sdallocx(block, BYTES, tikv_jemalloc_sys::MALLOCX_ALIGN(64));
    });
    println!("c {}", is_about(half));
    let plugin = std::env::args().nth(1).expect("the library's path");
    let (mut of_plugin, mut option) = (0, 0);
    let of_program = taken(|| (of_plugin, option) = plugin_takes(&plugin));
    println!("plugin {} {option} of it {}", is_about(of_plugin), of_program < BYTES as u64);
    let makers = (0..4).map(|thread: usize| {
        std::thread::spawn(move || (0..10_000).map(|size| vec![thread as u8; size % 2000]).collect::<Vec<_>>())
    });
    let made: usize = makers.collect::<Vec<_>>().into_iter().map(|maker| maker.join().expect("its blocks").len()).sum();
    println!("threads {made} child {}", child_lives());
}
