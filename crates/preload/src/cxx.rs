//! operator new and delete, all 20 forms of C++17, by their mangled names; in the archive behind weak ones (operators.S).
#![cfg_attr(not(feature = "shared"), expect(non_snake_case))] // the linker's names, under another one

use super::HEAP;
use super::malloc::{Pointer, address, answered, checked_free, free, malloc_slow, pointer};
use super::replaced::{self, Simpler, theirs};
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

unsafe extern "C" {
    /// new_handler.cc: calls of the program's forms, for the nothrow ones with what they throw caught.
    fn vcm_their_new(form: Pointer, bytes: usize, align: usize) -> Pointer;
    fn vcm_their_new_or_null(form: Pointer, bytes: usize, align: usize) -> Pointer;
    fn vcm_their_delete(form: Pointer, block: Pointer, align: usize);
}

/// The slow way of a form that the program may have replaced a simpler one of. Each function is the last thing that its
/// caller does, with the caller's own arguments: the fast way keeps nothing for it.
mod unsure {
    use super::*;

    macro_rules! new {
        ($name:ident, $theirs:ident, $no_memory:ident) => {
            #[cold]
            #[inline(never)]
            pub extern "C" fn $name(bytes: usize, align: usize, chain: &Chain) -> Pointer {
                if let Some(form) = theirs(chain.simpler) {
                    // SAFETY: the address is that of the form's name, whose type the ABI lays down.
                    return unsafe { $theirs(form, bytes, align) };
                }
                let block = answered(|| HEAP.allocate_aligned(align.max(1), bytes));
                if block.is_null() {
                    // SAFETY: every size and alignment may be asked for.
                    unsafe { $no_memory(bytes, align.max(1), chain.maker) }
                } else {
                    marked(block, chain.maker)
                }
            }
        };
    }
    new!(or_throw, vcm_their_new, vcm_new_or_throw);
    new!(or_null, vcm_their_new_or_null, vcm_new_or_null);

    #[cold]
    #[inline(never)]
    pub extern "C" fn delete(block: Pointer, align: usize, chain: &Chain) {
        match theirs(chain.simpler) {
            // SAFETY: as above.
            Some(form) => unsafe { vcm_their_delete(form, block, align) },
            None => {
                HEAP.hand_over(address(block), chain.maker);
                free(block);
            }
        }
    }
}

/// What a form is, and which simpler ones it goes to where the program has them.
struct Chain {
    maker: Maker,
    simpler: &'static [Simpler],
}

macro_rules! chain {
    ($maker:ident, [$($simpler:ident),*]) => {
        &Chain { maker: Maker::$maker, simpler: &[$(Simpler::$simpler),*] }
    };
}

/// False for the basic forms: nothing is simpler.
macro_rules! is_derived {
    ([]) => {
        false
    };
    ($some:tt) => {
        true
    };
}

macro_rules! new {
    ($($name:ident $maker:ident $simpler:tt $unsure:ident $no_memory:ident;)+) => { $(
        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        pub extern "C" fn $name(bytes: usize) -> Pointer {
            if replaced::may_be() && is_derived!($simpler) {
                return unsure::$unsure(bytes, 0, chain!($maker, $simpler));
            }
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
    )+ };
}

// The nothrow forms take a reference to an empty object more, which says nothing.
new! {
    _Znwm New [] or_throw vcm_new_or_throw;
    _Znam NewArray [New] or_throw vcm_new_or_throw;
    _ZnwmRKSt9nothrow_t New [New] or_null vcm_new_or_null;
    _ZnamRKSt9nothrow_t NewArray [NewArray, New] or_null vcm_new_or_null;
}

macro_rules! aligned_new {
    ($($name:ident $maker:ident $simpler:tt $unsure:ident $no_memory:ident;)+) => { $(
        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        pub extern "C" fn $name(bytes: usize, align: usize) -> Pointer {
            if replaced::may_be() && is_derived!($simpler) {
                return unsure::$unsure(bytes, align, chain!($maker, $simpler));
            }
            let block = answered(|| HEAP.allocate_aligned(align, bytes));
            if block.is_null() {
                // SAFETY: every size and alignment may be asked for.
                unsafe { $no_memory(bytes, align, Maker::$maker) }
            } else {
                marked(block, Maker::$maker)
            }
        }
    )+ };
}

aligned_new! {
    _ZnwmSt11align_val_t AlignedNew [] or_throw vcm_new_or_throw;
    _ZnamSt11align_val_t AlignedNewArray [AlignedNew] or_throw vcm_new_or_throw;
    _ZnwmSt11align_val_tRKSt9nothrow_t AlignedNew [AlignedNew] or_null vcm_new_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t AlignedNewArray [AlignedNewArray, AlignedNew]
        or_null vcm_new_or_null;
}

macro_rules! delete {
    ($($name:ident $maker:ident $simpler:tt;)+) => { $(
        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        pub extern "C" fn $name(block: Pointer) {
            if replaced::may_be() && is_derived!($simpler) {
                return unsure::delete(block, 0, chain!($maker, $simpler));
            }
            HEAP.hand_over(address(block), Maker::$maker);
            free(block);
        }
    )+ };
}

delete! {
    _ZdlPv New [];
    _ZdaPv NewArray [Delete];
    _ZdlPvRKSt9nothrow_t New [Delete];
    _ZdaPvRKSt9nothrow_t NewArray [DeleteArray, Delete];
}

macro_rules! aligned_delete {
    ($($name:ident $maker:ident $simpler:tt;)+) => { $(
        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        pub extern "C" fn $name(block: Pointer, align: usize) {
            if replaced::may_be() && is_derived!($simpler) {
                return unsure::delete(block, align, chain!($maker, $simpler));
            }
            HEAP.hand_over(address(block), Maker::$maker);
            free(block);
        }
    )+ };
}

aligned_delete! {
    _ZdlPvSt11align_val_t AlignedNew [];
    _ZdaPvSt11align_val_t AlignedNewArray [AlignedDelete];
    _ZdlPvSt11align_val_tRKSt9nothrow_t AlignedNew [AlignedDelete];
    _ZdaPvSt11align_val_tRKSt9nothrow_t AlignedNewArray [AlignedDeleteArray, AlignedDelete];
}

macro_rules! sized_delete {
    ($($sized:ident $maker:ident $simpler:tt, $aligned:ident $aligned_maker:ident $aligned_simpler:tt;)+) => { $(
        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($sized))))]
        pub extern "C" fn $sized(block: Pointer, bytes: usize) {
            if replaced::may_be() && is_derived!($simpler) {
                return unsure::delete(block, 0, chain!($maker, $simpler));
            }
            HEAP.hand_over(address(block), Maker::$maker);
            checked_free(block, bytes, 1);
        }

        #[cfg_attr(feature = "shared", unsafe(no_mangle))]
        #[cfg_attr(not(feature = "shared"), unsafe(export_name = concat!("vcm_", stringify!($aligned))))]
        pub extern "C" fn $aligned(block: Pointer, bytes: usize, align: usize) {
            if replaced::may_be() && is_derived!($aligned_simpler) {
                return unsure::delete(block, align, chain!($aligned_maker, $aligned_simpler));
            }
            HEAP.hand_over(address(block), Maker::$aligned_maker);
            checked_free(block, bytes, align);
        }
    )+ };
}

sized_delete! {
    _ZdlPvm New [Delete], _ZdlPvmSt11align_val_t AlignedNew [AlignedDelete];
    _ZdaPvm NewArray [DeleteArray, Delete], _ZdaPvmSt11align_val_t AlignedNewArray [AlignedDeleteArray, AlignedDelete];
}
