//! The core of vcmalloc: a heap whose caches belong to virtual CPUs.
//!
//! ```text
//!  hardened   the hardened policy: a heap that checks each block at each step
//!  heap       composition root: the calls, through policy and observers into the engine
//!  observe    observers: the live profile, probes, recordings
//!  engine     blocks from caches and pages; the frame of slow paths; fork, signal handlers, the end for a misuse
//!  policy     keys in freed blocks
//!  sources    blocks in no span: guarded samples, blocks of no bytes, emergency memory
//!  upkeep     what goes back to the system, and when; limits
//!  tenants    heaps of tenants: counted, bounded, gone at once
//!  cache      front: one slab of arrays for each virtual CPU
//!  central    middle: transfer arrays and lists of spans, for each class
//!  large      allocations above the largest class
//!  pages      back: address space, page map, spans, free runs
//!  class      size classes, computed and proved at compile time
//!  options    every option declared once
//!  os         the system, real or fake
//!  base       text, atomics, faults
//! ```
//!
//! A layer uses those below it, never those above. Nothing here is static, but the witness of the order of locks
//! (`os/witness.rs`) in debug builds: a program makes as many heaps as it likes.
#![cfg_attr(loom, allow(dead_code, reason = "loom's models are of parts"))]
#![cfg_attr(not(any(test, loom)), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "vcmalloc runs on Linux, on x86-64 and aarch64: its restartable sequences are written for these"
);

pub mod base;

// Under loom only the parts are built that are small enough to be explored: locks, bell, transfer array,
// budget, delayed frees, a pending fault, names, accounts and users of tenants' heaps.
#[cfg(loom)]
pub mod central {
    mod budget;
    mod transfer;
}
#[cfg(loom)]
pub mod engine {
    mod pending_fault;
}
#[cfg(loom)]
pub mod os {
    mod bell;
    mod mutex;
    mod witness;
    #[cfg(test)]
    pub mod yields;
    pub use mutex::{Mutex, Wait};
}
#[cfg(loom)]
pub mod pages {
    mod delayed;
}
#[cfg(loom)]
pub mod tenants {
    mod account;
    mod lives;
    mod users;
}

#[cfg(not(loom))]
pub mod cache;
#[cfg(not(loom))]
pub mod central;
#[cfg(not(loom))]
pub mod class;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
pub mod hardened;
#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
pub mod large;
#[cfg(not(loom))]
pub mod observe;
#[cfg(not(loom))]
pub mod options;
#[cfg(not(loom))]
pub mod os;
#[cfg(not(loom))]
pub mod pages;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub mod sources;
#[cfg(not(loom))]
pub mod tenants;
#[cfg(not(loom))]
pub mod upkeep;
