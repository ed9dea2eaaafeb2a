//! Objects whose operator new does not reach ours: a library that binds its own first (linked with `-Bsymbolic`, libstdc++
//! inside), a program that comes before us. Its blocks are malloc's here, and the caller decides which delete takes them: a
//! free of malloc's block by operator delete is no evidence of a misuse then.

use super::lookup;
use super::replaced::{self, Simpler};
use core::ffi::CStr;

const NEWS: [&CStr; 2] = [c"_Znwm", c"_ZnwmSt11align_val_t"];

/// Whether the process has such an object now.
pub fn exists() -> bool {
    let replaced = [Simpler::New, Simpler::NewArray, Simpler::AlignedNew, Simpler::AlignedNewArray];
    replaced::theirs(&replaced).is_some() || lookup::any_symbolic(&NEWS, exists as *const () as usize)
}
