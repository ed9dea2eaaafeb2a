//! Stacks of the program's calls, without those inside this library.

#[cfg(target_arch = "x86_64")]
mod tables {
    use core::ffi::c_void;
    use core::ops::Range;
    use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
    use vcmalloc_core::os::unwind::{self, FindObject};

    /// The C library is ready. Before, a static program cannot find its own tables.
    static READY: AtomicBool = AtomicBool::new(false);
    /// glibc's `_dl_find_object`; null where it has none.
    static FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

    pub fn ready() {
        FIND.store(crate::moved::find(libc::RTLD_DEFAULT, c"_dl_find_object"), Ordering::Relaxed);
        READY.store(true, Ordering::Relaxed);
    }

    pub fn stack(frames: &mut [usize]) -> usize {
        if !READY.load(Ordering::Relaxed) {
            return 0;
        }
        // SAFETY: the name stands for that function.
        let find = unsafe { FindObject::new(FIND.load(Ordering::Relaxed)) };
        // Programs that are linked with -static have no tables unless they ask for them.
        let Some(here) = unwind::object_of(stack as *const () as usize, find) else { return 0 };
        // Frames of this library say nothing about the program. In a program that links it statically nothing tells
        // its code from the program's.
        let own: Range<usize> = if cfg!(shared) { here } else { 0..0 };
        unwind::stack(frames, &own, find)
    }
}

/// Called when the library is loaded, which in a static program comes after the C library's own start.
pub fn ready() {
    #[cfg(target_arch = "x86_64")]
    tables::ready();
}

/// Return addresses of this thread's calls outside this library, innermost first; returns how many. None
/// before `ready`, and on machines whose tables are not read.
pub fn stack(frames: &mut [usize]) -> usize {
    #[cfg(target_arch = "x86_64")]
    return tables::stack(frames);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = frames;
        0
    }
}
