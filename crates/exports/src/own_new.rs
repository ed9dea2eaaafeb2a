//! Objects whose operator new does not reach ours: a library that binds its own first (linked with `-Bsymbolic`, libstdc++
//! inside), a program that comes before us. What it gives out is malloc's here, and which delete takes it is a matter of who
//! calls: a free of malloc's block by operator delete is no evidence of a misuse then.

use super::lookup;
use super::replaced::{self, Simpler};
use core::ffi::CStr;

const NEWS: [&CStr; 2] = [c"_Znwm", c"_ZnwmSt11align_val_t"];

/// Whether the process has such an object now.
pub fn exists() -> bool {
    let replaced = [Simpler::New, Simpler::NewArray, Simpler::AlignedNew, Simpler::AlignedNewArray];
    replaced::theirs(&replaced).is_some() || lookup::any_symbolic(&NEWS, exists as *const () as usize)
}
