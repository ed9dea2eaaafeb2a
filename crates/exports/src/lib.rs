// docs.rs and doctests: the crate as its users see it.
#![cfg_attr(all(rust_stats, rust_profile), doc = include_str!("../README.md"))]
//! # Inside
//!
//! libvcmalloc: the C and C++ allocation functions on one static heap.
//!
//! Owns the one instance of the heap; promises glibc's rules for sizes, alignments and errno; programs call
//! it; sits on `vcmalloc_core::heap`. Each library of crates/libraries has this file as its root, and so has
//! the crate `vcmalloc` (docs/design/rust-crate.md). No constructor
//! has to run before the first call. The one thread-local variable is the core's: the area of our own registration
//! (`vcmalloc_core::os`), which is only used where the C library registers none.
//!
//! Each file uses those in rows below it; `tests/layers_of_exports.rs` reads this picture. All use what stands here: the
//! way to blocks, and the heap.
//!
//! ```text
//! rust tikv                   the crates for Rust programs: the global allocator; tikv-jemalloc-sys
//! tenants                     and heaps of tenants
//! start                       when the library is loaded, when the process forks, when it ends
//! gperftools jemalloc         the stand-ins' interfaces
//! fast                        the functions that are called most, as far as they hit the cache, written whole
//! tokens                      malloc's family and new for a type's token, in the hardened library
//! cxx extended api heaps      operators new and delete, jemalloc's calls with flags, vcmalloc.h
//! malloc introspection copies malloc's family, glibc's questions about the heap, memcpy where every block is checked
//! filters                     put before libc's: prctl and syscall
//! loader threads              put before libc's: dlopen, pthread_create and the like
//! children                    vfork and clone before libc's
//! signals faults janitor      sigaction and signal before libc's, our handler of SIGSEGV, the janitor's thread
//! own_new                     objects with an operator new that does not reach ours
//! actions                     the program's action while ours is in its place
//! replaced unwind next        the program's own operators, stacks, libc's functions behind ours
//! window probes               for readers outside: the place of the statistics, and sites where tracers stop
//! registration                whether threads are registered for the sequences by ourselves
//! moved version               functions that glibc moved; which build this is
//! sink                        a descriptor as a place for text
//! lookup new_mode             a search for names without dlsym; malloc's way without memory, by gperftools
//! counted                     what each thread took and freed, for jemalloc's interface
//! c                           the types that C's functions speak in: pointers, names, errno
//! ```
// Editors and `cargo check` build with the profile for tests, which unwinds: there std has what a panic needs.
#![cfg_attr(any(rust, panic = "abort"), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

mod actions;
#[cfg(exported)]
mod api;
mod c;
#[cfg(exported)]
mod children;
#[cfg(all(hardened, shared))]
mod copies;
#[cfg(jemalloc)]
mod counted;
#[cfg(exported)]
mod cxx;
#[cfg(any(exported, prefixed))]
mod extended;
#[cfg(whole_paths)]
mod fast;
mod faults;
#[cfg(shared)]
mod filters;
#[cfg(gperftools)]
mod gperftools;
#[cfg(exported)]
mod heaps;
#[cfg(exported)]
mod introspection;
mod janitor;
#[cfg(jemalloc)]
mod jemalloc;
#[cfg(shared)]
mod loader;
#[cfg(shared)]
mod lookup;
// With a prefix some have no name.
#[cfg(any(exported, prefixed))]
#[cfg_attr(prefixed, allow(dead_code, unused_imports))]
mod malloc;
mod moved;
#[cfg(gperftools)]
mod new_mode;
#[cfg(shared)]
mod next;
#[cfg(all(hardened, shared))]
mod own_new;
mod probes;
mod registration;
#[cfg(exported)]
mod replaced;
#[cfg(all(rust, not(tikv)))]
mod rust;
#[cfg(shared)]
mod signals;
mod sink;
mod start;
#[cfg(all(rust, not(tikv)))]
mod tenants;
#[cfg(shared)]
mod threads;
#[cfg(tikv)]
mod tikv;
#[cfg(all(hardened, exported))]
mod tokens;
mod unwind;
mod version;
mod window;

use vcmalloc_core::heap::{self as core_heap, Blocks};
use vcmalloc_core::os::Linux;

/// The one difference between the libraries: the treatment of a block on its way out and back.
#[cfg(not(hardened))]
type Policy = core_heap::Heap<Linux>;
#[cfg(hardened)]
type Policy = vcmalloc_core::hardened::Hardened<Linux>;

#[cfg(not(hardened))]
const BEFORE_GUARDS: Option<fn()> = Some(faults::catch);
/// Every block is checked: none has to be a guarded sample.
#[cfg(hardened)]
const BEFORE_GUARDS: Option<fn()> = None;

static HEAP: Policy = policy();

const fn policy() -> Policy {
    let hooks = core_heap::Hooks { before_guards: BEFORE_GUARDS, unwind: unwind::stack };
    let policy = Policy::with_hooks(Linux::new(), hooks).with_probes(probes::all());
    #[cfg(all(hardened, shared))]
    let policy = policy.with_own_new(own_new::exists);
    policy
}

/// The only way to blocks: one that counts them for their thread.
#[cfg(jemalloc)]
#[inline(always)]
fn blocks() -> &'static impl Blocks {
    &counted::Counted
}

/// The only way to blocks. Nothing of a policy is seen here but what every policy answers.
#[cfg(not(jemalloc))]
#[inline(always)]
fn blocks() -> &'static impl Blocks {
    &HEAP
}

/// The heap below the policy, for what is no matter of blocks.
#[inline(always)]
fn heap() -> &'static core_heap::Heap<Linux> {
    HEAP.heap()
}

/// The place of that heap, for readers outside the process.
const fn place_of_heap() -> *const core_heap::Heap<Linux> {
    Policy::heap_of(&raw const HEAP)
}

#[cfg(all(rust, not(tikv)))]
pub use rust::*;
#[cfg(tikv)]
pub use tikv::*;

/// Nothing here panics: a test on the library's symbols proves that this is never called.
#[cfg(all(not(rust), panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    vcmalloc_core::os::Os::abort(heap().os())
}
