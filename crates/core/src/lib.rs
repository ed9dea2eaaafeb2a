#![cfg_attr(not(any(test, loom)), no_std)]
pub mod base;
pub mod options;
