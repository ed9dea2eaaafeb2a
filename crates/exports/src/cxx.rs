//! operator new and delete, all 20 forms of C++17 and the eight that LLVM calls where a profile says how hot the block will
//! be, by their mangled names; in the archive behind weak ones (operators.S).
// The linker's names, also where the functions have other ones for it.
#![allow(non_snake_case)]

use super::c::{Pointer, address, pointer, undisturbed};
use super::malloc::{answered, checked_free, malloc_slow, plain_free};
use super::replaced::{self, Simpler, theirs};
use super::{Blocks, blocks};
use vcmalloc_core::base::fault::Maker;

/// jemalloc's interface has an option for a new that never throws.
#[cfg(jemalloc)]
#[inline(always)]
unsafe fn vcm_new_or_throw(bytes: usize, align: usize, maker: Maker) -> Pointer {
    if super::counted::is_infallible() {
        return core::ptr::null_mut();
    }
    // SAFETY: every size and alignment may be asked for.
    unsafe { new_or_throw(bytes, align, maker) }
}

#[cfg(not(jemalloc))]
use new_or_throw as vcm_new_or_throw;

unsafe extern "C" {
    /// new_handler.cc. May throw, so it is only ever the last thing that a function here calls.
    #[link_name = "vcm_new_or_throw"]
    pub fn new_or_throw(bytes: usize, align: usize, maker: Maker) -> Pointer;
    pub fn vcm_new_or_null(bytes: usize, align: usize, maker: Maker) -> Pointer;
}

/// One more attempt, after the new-handler ran.
#[unsafe(no_mangle)]
extern "C" fn vcm_new_attempt(bytes: usize, align: usize, maker: Maker) -> Pointer {
    marked(pointer(blocks().allocate_aligned(align, bytes)), maker)
}

#[inline(always)]
fn marked(block: Pointer, maker: Maker) -> Pointer {
    blocks().mark(address(block), maker);
    block
}

unsafe extern "C" {
    /// new_handler.cc: calls of the program's forms, for the nothrow ones with what they throw caught.
    fn vcm_their_new(form: Pointer, bytes: usize, align: usize) -> Pointer;
    fn vcm_their_new_or_null(form: Pointer, bytes: usize, align: usize) -> Pointer;
    fn vcm_their_delete(form: Pointer, block: Pointer, align: usize);
}

/// The slow way of a form that the program may have replaced a simpler one of. Each function is the last
/// thing that its caller does, with the caller's own arguments: the fast way keeps nothing for it.
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
                let block = answered(|| blocks().allocate_aligned(align.max(1), bytes));
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
            // SAFETY: the address is that of the form's name, whose type the ABI lays down.
            Some(form) => unsafe { vcm_their_delete(form, block, align) },
            None => {
                blocks().hand_over(address(block), chain.maker);
                plain_free(block);
            }
        }
    }
}

/// The maker of a form, and the simpler forms that it goes to where the program has them.
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

/// The name of a form for the linker: its own in the shared libraries, that of operators.S in the archive.
/// If fast.rs has the `hot` forms, those functions have the names, and these are their slow paths.
macro_rules! named {
    (hot $name:ident $($function:tt)+) => {
        #[cfg_attr(all(not(whole_paths), shared), unsafe(no_mangle))]
        #[cfg_attr(
            all(not(whole_paths), not(shared)),
            unsafe(export_name = concat!("vcm_", stringify!($name)))
        )]
        $($function)+
    };
    (cold $name:ident $($function:tt)+) => {
        #[cfg_attr(shared, unsafe(no_mangle))]
        #[cfg_attr(not(shared), unsafe(export_name = concat!("vcm_", stringify!($name))))]
        $($function)+
    };
}

macro_rules! new {
    ($($heat:ident $name:ident $maker:ident $simpler:tt $unsure:ident $no_memory:ident;)+) => { $(
        named! {
            $heat $name
            pub extern "C" fn $name(bytes: usize) -> Pointer {
                if replaced::may_be() && is_derived!($simpler) {
                    return unsure::$unsure(bytes, 0, chain!($maker, $simpler));
                }
                match blocks().make_fast(bytes, Maker::$maker) {
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
        }
    )+ };
}

// The nothrow forms take a reference to an empty object more, which says nothing.
new! {
    hot _Znwm New [] or_throw vcm_new_or_throw;
    hot _Znam NewArray [New] or_throw vcm_new_or_throw;
    cold _ZnwmRKSt9nothrow_t New [New] or_null vcm_new_or_null;
    cold _ZnamRKSt9nothrow_t NewArray [NewArray, New] or_null vcm_new_or_null;
    // With `__hot_cold_t`, a byte from 0 (cold) to 255 (hot). It is accepted and not used yet: the block is like any other.
    cold _Znwm12__hot_cold_t New [New] or_throw vcm_new_or_throw;
    cold _Znam12__hot_cold_t NewArray [NewArray, New] or_throw vcm_new_or_throw;
    cold _ZnwmRKSt9nothrow_t12__hot_cold_t New [New] or_null vcm_new_or_null;
    cold _ZnamRKSt9nothrow_t12__hot_cold_t NewArray [NewArray, New] or_null vcm_new_or_null;
}

macro_rules! aligned_new {
    ($($name:ident $maker:ident $simpler:tt $unsure:ident $no_memory:ident;)+) => { $(
        named! {
            cold $name
            pub extern "C" fn $name(bytes: usize, align: usize) -> Pointer {
                if replaced::may_be() && is_derived!($simpler) {
                    return unsure::$unsure(bytes, align, chain!($maker, $simpler));
                }
                let block = match blocks().allocate_aligned_fast(align, bytes) {
                    0 => answered(|| blocks().allocate_aligned(align, bytes)),
                    block => pointer(block),
                };
                if block.is_null() {
                    // SAFETY: every size and alignment may be asked for.
                    unsafe { $no_memory(bytes, align, Maker::$maker) }
                } else {
                    marked(block, Maker::$maker)
                }
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
    _ZnwmSt11align_val_t12__hot_cold_t AlignedNew [AlignedNew] or_throw vcm_new_or_throw;
    _ZnamSt11align_val_t12__hot_cold_t AlignedNewArray [AlignedNewArray, AlignedNew] or_throw vcm_new_or_throw;
    _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t AlignedNew [AlignedNew] or_null vcm_new_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t AlignedNewArray [AlignedNewArray, AlignedNew]
        or_null vcm_new_or_null;
}

#[cold]
#[inline(never)]
extern "C" fn delete_slow(block: Pointer, maker: Maker) {
    if block.is_null() {
        return;
    }
    undisturbed(|| {
        blocks().hand_over(address(block), maker);
        blocks().free_slow(address(block));
    });
}

#[cold]
#[inline(never)]
extern "C" fn sized_delete_slow(block: Pointer, bytes: usize, maker: Maker) {
    blocks().hand_over(address(block), maker);
    checked_free(block, bytes, 1);
}

macro_rules! delete {
    ($($heat:ident $name:ident $maker:ident $simpler:tt;)+) => { $(
        named! {
            $heat $name
            pub extern "C" fn $name(block: Pointer) {
                if replaced::may_be() && is_derived!($simpler) {
                    return unsure::delete(block, 0, chain!($maker, $simpler));
                }
                if !blocks().take_fast(address(block), Maker::$maker) {
                    delete_slow(block, Maker::$maker);
                }
            }
        }
    )+ };
}

delete! {
    hot _ZdlPv New [];
    hot _ZdaPv NewArray [Delete];
    cold _ZdlPvRKSt9nothrow_t New [Delete];
    cold _ZdaPvRKSt9nothrow_t NewArray [DeleteArray, Delete];
}

macro_rules! aligned_delete {
    ($($name:ident $maker:ident $simpler:tt;)+) => { $(
        named! {
            cold $name
            pub extern "C" fn $name(block: Pointer, align: usize) {
                if replaced::may_be() && is_derived!($simpler) {
                    return unsure::delete(block, align, chain!($maker, $simpler));
                }
                blocks().hand_over(address(block), Maker::$maker);
                plain_free(block);
            }
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
        named! {
            hot $sized
            pub extern "C" fn $sized(block: Pointer, bytes: usize) {
                if replaced::may_be() && is_derived!($simpler) {
                    return unsure::delete(block, 0, chain!($maker, $simpler));
                }
                if !blocks().take_sized_fast(address(block), bytes, Maker::$maker) {
                    sized_delete_slow(block, bytes, Maker::$maker);
                }
            }
        }

        named! {
            cold $aligned
            pub extern "C" fn $aligned(block: Pointer, bytes: usize, align: usize) {
                if replaced::may_be() && is_derived!($aligned_simpler) {
                    return unsure::delete(block, align, chain!($aligned_maker, $aligned_simpler));
                }
                blocks().hand_over(address(block), Maker::$aligned_maker);
                checked_free(block, bytes, align);
            }
        }
    )+ };
}

sized_delete! {
    _ZdlPvm New [Delete], _ZdlPvmSt11align_val_t AlignedNew [AlignedDelete];
    _ZdaPvm NewArray [DeleteArray, Delete], _ZdaPvmSt11align_val_t AlignedNewArray [AlignedDeleteArray, AlignedDelete];
}
