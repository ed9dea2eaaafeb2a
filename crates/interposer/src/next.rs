//! The allocator behind this library, and a few blocks for the time before it is known: looking it up may allocate.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

pub type Block = *mut c_void;

pub struct Next(AtomicPtr<c_void>, &'static CStr);

macro_rules! next {
    ($($place:ident = $name:literal, $function:ident: $signature:ty;)+) => {
        $(
            static $place: Next = Next(AtomicPtr::new(null_mut()), $name);
            #[inline(always)]
            pub fn $function() -> Option<$signature> {
                // SAFETY: the type is that of the function of this name; a null pointer is None.
                unsafe { transmute($place.0.load(Relaxed)) }
            }
        )+

        pub fn find_all() {
            for next in [$(&$place),+] {
                // SAFETY: the name ends with a zero.
                next.0.store(unsafe { libc::dlsym(libc::RTLD_NEXT, next.1.as_ptr()) }, Relaxed);
            }
        }
    };
}

next! {
    MALLOC = c"malloc", malloc: unsafe extern "C" fn(usize) -> Block;
    CALLOC = c"calloc", calloc: unsafe extern "C" fn(usize, usize) -> Block;
    REALLOC = c"realloc", realloc: unsafe extern "C" fn(Block, usize) -> Block;
    FREE = c"free", free: unsafe extern "C" fn(Block);
    MEMALIGN = c"memalign", memalign: unsafe extern "C" fn(usize, usize) -> Block;
    ALIGNED_ALLOC = c"aligned_alloc", aligned_alloc: unsafe extern "C" fn(usize, usize) -> Block;
    POSIX_MEMALIGN = c"posix_memalign", posix_memalign: unsafe extern "C" fn(*mut Block, usize, usize) -> c_int;
    VALLOC = c"valloc", valloc: unsafe extern "C" fn(usize) -> Block;
    PVALLOC = c"pvalloc", pvalloc: unsafe extern "C" fn(usize) -> Block;
}

const EARLY_BYTES: usize = 64 << 10;

#[repr(align(64))]
struct Early(UnsafeCell<[u8; EARLY_BYTES]>);

// SAFETY: each part of it is given to one caller, by `USED`.
unsafe impl Sync for Early {}

static EARLY: Early = Early(UnsafeCell::new([0; EARLY_BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// A block of zeros that stays for good.
pub fn early(bytes: usize) -> Block {
    if bytes > EARLY_BYTES {
        return null_mut();
    }
    let at = USED.fetch_add((bytes + 79) & !63, Relaxed);
    if at + bytes > EARLY_BYTES {
        return null_mut();
    }
    EARLY.0.get().cast::<u8>().wrapping_add(at).cast()
}

pub fn is_early(block: Block) -> bool {
    (block as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_BYTES
}

/// How much may be read from an early block: its own length is not kept.
pub fn early_room(block: Block) -> usize {
    EARLY_BYTES - (block as usize - EARLY.0.get() as usize)
}
