//! The core of vcmalloc: a heap whose caches belong to virtual CPUs.
//!
//! ```text
//!  heap       composition root: owns one of each layer below
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
//! A layer uses those below it, never those above. Nothing here is static: a program makes as many heaps as it likes.
#![cfg_attr(not(any(test, loom)), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod base;
pub mod cache;
pub mod central;
pub mod class;
pub mod heap;
pub mod large;
pub mod options;
pub mod os;
pub mod pages;
