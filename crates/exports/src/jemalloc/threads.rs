//! A thread's arena and name, and threads counted by arena. A thread that chose an arena leaves it when it ends, by a value of its own
//! whose destructor says so; its name is freed there.

use super::arenas;
use super::io::Outcome;
use crate::c::{Pointer, undisturbed};
use crate::counted::{Thread, thread};
use crate::{heap, moved};
use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{EAGAIN, EFAULT};
use vcmalloc_core::class::MIN_ALIGN;
use vcmalloc_core::heap::{Blocks, HeapId};

/// In a thread's flags.
const WITHOUT_CACHE: u32 = 1;
const WITHOUT_SAMPLES: u32 = 2;

fn flag(bit: u32) -> bool {
    thread().flags.load(Ordering::Relaxed) & bit != 0
}

fn set_flag(bit: u32, is_set: bool) {
    let flags = thread().flags.load(Ordering::Relaxed);
    thread().flags.store(if is_set { flags | bit } else { flags & !bit }, Ordering::Relaxed);
}

/// Whether the thread would use a cache; caches belong to virtual CPUs here, so it is remembered and changes nothing.
pub fn has_cache() -> bool {
    !flag(WITHOUT_CACHE)
}

pub fn set_cache(is_enabled: bool) {
    set_flag(WITHOUT_CACHE, !is_enabled);
}

pub fn is_sampled() -> bool {
    !flag(WITHOUT_SAMPLES)
}

pub fn set_sampled(is_sampled: bool) {
    set_flag(WITHOUT_SAMPLES, !is_sampled);
}

/// The arena that serves this thread; 0 where the one that it chose has ended.
pub fn arena() -> usize {
    let number = thread().arena.load(Ordering::Relaxed) as usize;
    if arenas::heap_of(number).is_some() { number } else { 0 }
}

/// From now on an arena serves this thread.
pub fn choose(number: usize) -> Outcome {
    let id = arenas::heap_of(number).ok_or(EFAULT)?;
    let before = thread().arena.load(Ordering::Relaxed);
    if before as usize == number && number == 0 {
        return Ok(());
    }
    if number != 0 && !tell_at_end() {
        return Err(EAGAIN);
    }
    heap().push_heap(id).ok_or(EAGAIN)?;
    thread().arena.store(number as u32, Ordering::Relaxed);
    // Those of arena 0 are all others.
    if before != 0 {
        arenas::leave(before as usize);
    }
    if number != 0 {
        arenas::enter(number);
    }
    Ok(())
}

/// The key, and one more; 0 while there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Has this thread leave its arena when it ends; false where the C library has no place for that.
fn tell_at_end() -> bool {
    let (Some(create), Some(set)) = (moved::pthread_key_create(), moved::pthread_setspecific()) else {
        return false;
    };
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: the destructor lives as long as the process: the library is never unloaded.
        if unsafe { create(&raw mut made, Some(at_end)) } != 0 {
            return false;
        }
        key = match KEY.compare_exchange(0, made + 1, Ordering::Release, Ordering::Acquire) {
            Ok(_) => made + 1,
            // Another thread was first: one key more is lost.
            Err(theirs) => theirs,
        };
    }
    // SAFETY: the key exists; the value is no address that anybody reads.
    unsafe { set(key - 1, core::ptr::from_ref::<Thread>(thread()).cast::<c_void>().cast_mut()) == 0 }
}

extern "C" fn at_end(_: Pointer) {
    forget_name(core::ptr::null_mut());
    let before = thread().arena.swap(0, Ordering::Relaxed);
    if before != 0 {
        arenas::leave(before as usize);
        // Later destructors are served by the process's own heap.
        heap().push_heap(HeapId::OWN);
    }
}

pub fn name() -> *const c_char {
    let name = thread().name.load(Ordering::Relaxed);
    if name.is_null() { c"".as_ptr() } else { name.cast_const() }
}

/// Keeps a copy until the thread has another name, or ends. It is a block of the process's own heap, whatever arena serves the
/// thread, and counts for nobody.
pub fn keep_name(name: &CStr) -> Outcome {
    let bytes = name.to_bytes_with_nul();
    let taken = undisturbed(|| Blocks::allocate_in(heap(), HeapId::OWN, MIN_ALIGN, bytes.len()));
    let Some(copy) = taken.ok().filter(|copy| *copy != 0) else { return Err(EAGAIN) };
    let copy: *mut c_char = crate::c::pointer(copy).cast();
    // SAFETY: the block is so long, and ours.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    forget_name(copy);
    // Without it the name of a thread that ends stays.
    tell_at_end();
    Ok(())
}

/// Frees the name of this thread, which has another one then.
fn forget_name(other: *mut c_char) {
    let before = thread().name.swap(other, Ordering::Relaxed);
    undisturbed(|| Blocks::free(heap(), crate::c::address(before.cast())));
}

/// In a child of fork, which has this thread alone.
pub fn after_fork_in_child() {
    arenas::after_fork_in_child();
    let number = thread().arena.load(Ordering::Relaxed);
    if number != 0 {
        arenas::enter(number as usize);
    }
}

/// Threads of this process that chose no arena: all that the system has, less the janitor and those that did. None where the
/// system does not say.
pub fn of_own_heap() -> Option<u32> {
    if !heap().os().may_ask(libc::SYS_newfstatat) {
        return None;
    }
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let (here, path) = (libc::AT_FDCWD, c"/proc/self/task".as_ptr());
    // By number: the C library has a function of that name only since 2.33.
    // SAFETY: a C string, and a place for the answer.
    let failed =
        undisturbed(|| unsafe { libc::syscall(libc::SYS_newfstatat, here, path, status.as_mut_ptr(), 0) });
    if failed != 0 {
        return None;
    }
    // SAFETY: zero is a valid state, and it was filled.
    let links = unsafe { status.assume_init_ref() }.st_nlink;
    let janitor = super::figures::janitors() as usize;
    let elsewhere: usize = (1..arenas::count()).map(|number| arenas::threads(number) as usize).sum();
    // Each folder counts itself and the one above.
    Some((links as usize).saturating_sub(2 + janitor + elsewhere) as u32)
}
