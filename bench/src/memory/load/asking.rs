//! The call by which an idle program makes its allocator give memory back: each allocator has its own name for
//! it. Looked up when the program runs, in whatever library serves malloc here.

use crate::load::c_heap;
use std::ffi::{CStr, c_int, c_void};

/// A function of the allocator, and how it is called.
#[derive(Clone, Copy)]
enum Shape {
    Plain,
    /// With "at once".
    Force,
    /// With how many bytes may stay.
    Keep,
    /// With how many bytes shall go.
    Bytes,
    /// jemalloc's: the address of a setting. 4096 stands for all its arenas.
    Control,
}

/// The first that is there. The C library's comes last: it is there whoever serves malloc.
const NAMES: [(&CStr, Shape); 8] = [
    (c"vcm_release", Shape::Keep),
    (c"mi_on_thread_idle", Shape::Plain),
    (c"mi_collect", Shape::Force),
    (c"mallctl", Shape::Control),
    (c"MallocExtension_ReleaseFreeMemory", Shape::Plain),
    (c"MallocExtension_Internal_ReleaseMemoryToSystem", Shape::Bytes),
    (c"rpmalloc_thread_collect", Shape::Plain),
    (c"malloc_trim", Shape::Keep),
];

pub struct Call {
    function: *mut c_void,
    shape: Shape,
}

impl Call {
    /// None where this allocator has no such function, or one that we do not know.
    pub fn of_this_process() -> Option<Self> {
        let is_libc = c_heap::malloc_object().contains("libc.so");
        NAMES.iter().filter(|(name, _)| is_libc || *name != c"malloc_trim").find_map(|&(name, shape)| {
            // SAFETY: a name that ends with a zero; the lookup changes nothing.
            let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!function.is_null()).then_some(Self { function, shape })
        })
    }

    pub fn ask(&self) {
        type Control =
            extern "C" fn(*const libc::c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
        let none = std::ptr::null_mut();
        // SAFETY: the forms are those that the allocators' headers declare.
        unsafe {
            match self.shape {
                Shape::Plain => std::mem::transmute::<*mut c_void, extern "C" fn()>(self.function)(),
                Shape::Force => std::mem::transmute::<*mut c_void, extern "C" fn(bool)>(self.function)(true),
                Shape::Keep => {
                    std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> usize>(self.function)(0);
                }
                Shape::Bytes => {
                    std::mem::transmute::<*mut c_void, extern "C" fn(usize)>(self.function)(usize::MAX);
                }
                Shape::Control => {
                    let control = std::mem::transmute::<*mut c_void, Control>(self.function);
                    control(c"arena.4096.purge".as_ptr(), none, none.cast(), none, 0);
                }
            }
        }
    }
}
