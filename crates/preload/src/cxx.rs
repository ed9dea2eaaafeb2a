//! operator new and delete, all 20 forms of C++17, by their mangled names.

use super::HEAP;
use super::malloc::{Pointer, address, answered, checked_free, free, malloc_slow, pointer};
use vcmalloc_core::base::fault::Maker;

unsafe extern "C" {
    /// new_handler.cc. May throw, so it is only ever the last thing that a function here calls.
    fn vcm_new_or_throw(bytes: usize, align: usize, maker: Maker) -> Pointer;
    fn vcm_new_or_null(bytes: usize, align: usize, maker: Maker) -> Pointer;
}

/// One more attempt, after the new-handler ran.
#[unsafe(no_mangle)]
extern "C" fn vcm_new_attempt(bytes: usize, align: usize, maker: Maker) -> Pointer {
    marked(pointer(HEAP.allocate_aligned(align, bytes)), maker)
}

#[inline(always)]
fn marked(block: Pointer, maker: Maker) -> Pointer {
    HEAP.mark(address(block), maker);
    block
}

macro_rules! new {
    ($($plain:ident $maker:ident, $aligned:ident $aligned_maker:ident, $no_memory:ident;)+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $plain(bytes: usize) -> Pointer {
            match HEAP.allocate_fast(bytes) {
                0 => {
                    let block = malloc_slow(bytes);
                    if block.is_null() {
                        // SAFETY: every size and alignment may be asked for.
                        unsafe { $no_memory(bytes, 1, Maker::$maker) }
                    } else {
                        marked(block, Maker::$maker)
                    }
                }
                block => pointer(block),
            }
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $aligned(bytes: usize, align: usize) -> Pointer {
            let block = answered(|| HEAP.allocate_aligned(align, bytes));
            if block.is_null() {
                // SAFETY: as above.
                unsafe { $no_memory(bytes, align, Maker::$aligned_maker) }
            } else {
                marked(block, Maker::$aligned_maker)
            }
        }
    )+ };
}

// The nothrow forms take a reference to an empty object more, which says nothing.
new! {
    _Znwm New, _ZnwmSt11align_val_t AlignedNew, vcm_new_or_throw;
    _Znam NewArray, _ZnamSt11align_val_t AlignedNewArray, vcm_new_or_throw;
    _ZnwmRKSt9nothrow_t New, _ZnwmSt11align_val_tRKSt9nothrow_t AlignedNew, vcm_new_or_null;
    _ZnamRKSt9nothrow_t NewArray, _ZnamSt11align_val_tRKSt9nothrow_t AlignedNewArray, vcm_new_or_null;
}

macro_rules! delete {
    ($($name:ident $maker:ident;)+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(block: Pointer) {
            HEAP.hand_over(address(block), Maker::$maker);
            free(block);
        }
    )+ };
}

delete! {
    _ZdlPv New;
    _ZdaPv NewArray;
    _ZdlPvRKSt9nothrow_t New;
    _ZdaPvRKSt9nothrow_t NewArray;
    _ZdlPvSt11align_val_tRKSt9nothrow_t AlignedNew;
    _ZdaPvSt11align_val_tRKSt9nothrow_t AlignedNewArray;
    _ZdlPvSt11align_val_t AlignedNew;
    _ZdaPvSt11align_val_t AlignedNewArray;
}

macro_rules! sized_delete {
    ($($sized:ident $maker:ident, $aligned:ident $aligned_maker:ident;)+) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $sized(block: Pointer, bytes: usize) {
            HEAP.hand_over(address(block), Maker::$maker);
            checked_free(block, bytes, 1);
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $aligned(block: Pointer, bytes: usize, align: usize) {
            HEAP.hand_over(address(block), Maker::$aligned_maker);
            checked_free(block, bytes, align);
        }
    )+ };
}

sized_delete! {
    _ZdlPvm New, _ZdlPvmSt11align_val_t AlignedNew;
    _ZdaPvm NewArray, _ZdaPvmSt11align_val_t AlignedNewArray;
}
