//! operator new and delete, all 20 forms of C++17, by their mangled names.

use super::HEAP;
use super::malloc::{Pointer, answered, checked_free, free, malloc_slow, pointer};

unsafe extern "C" {
    /// new_handler.cc. May throw, so it is only ever the last thing that a function here calls.
    fn vcm_new_or_throw(bytes: usize, align: usize) -> Pointer;
    fn vcm_new_or_null(bytes: usize, align: usize) -> Pointer;
}

/// One more attempt, after the new-handler ran.
#[unsafe(no_mangle)]
extern "C" fn vcm_new_attempt(bytes: usize, align: usize) -> Pointer {
    pointer(HEAP.allocate_aligned(align, bytes))
}

macro_rules! new {
    ($($plain:ident, $aligned:ident, $no_memory:ident;)+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $plain(bytes: usize) -> Pointer {
            match HEAP.allocate_fast(bytes) {
                0 => {
                    let block = malloc_slow(bytes);
                    // SAFETY: every size and alignment may be asked for.
                    if block.is_null() { unsafe { $no_memory(bytes, 1) } } else { block }
                }
                block => pointer(block),
            }
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $aligned(bytes: usize, align: usize) -> Pointer {
            let block = answered(|| HEAP.allocate_aligned(align, bytes));
            // SAFETY: as above.
            if block.is_null() { unsafe { $no_memory(bytes, align) } } else { block }
        }
    )+ };
}

// The nothrow forms take a reference to an empty object more, which says nothing.
new! {
    _Znwm, _ZnwmSt11align_val_t, vcm_new_or_throw;
    _Znam, _ZnamSt11align_val_t, vcm_new_or_throw;
    _ZnwmRKSt9nothrow_t, _ZnwmSt11align_val_tRKSt9nothrow_t, vcm_new_or_null;
    _ZnamRKSt9nothrow_t, _ZnamSt11align_val_tRKSt9nothrow_t, vcm_new_or_null;
}

macro_rules! delete {
    ($($name:ident),+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(block: Pointer) {
            free(block);
        }
    )+ };
}

delete! {
    _ZdlPv, _ZdaPv, _ZdlPvRKSt9nothrow_t, _ZdaPvRKSt9nothrow_t, _ZdlPvSt11align_val_t, _ZdaPvSt11align_val_t,
    _ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdaPvSt11align_val_tRKSt9nothrow_t
}

macro_rules! sized_delete {
    ($($sized:ident, $aligned:ident;)+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $sized(block: Pointer, bytes: usize) {
            checked_free(block, bytes, 1);
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $aligned(block: Pointer, bytes: usize, align: usize) {
            checked_free(block, bytes, align);
        }
    )+ };
}

sized_delete! {
    _ZdlPvm, _ZdlPvmSt11align_val_t;
    _ZdaPvm, _ZdaPvmSt11align_val_t;
}
