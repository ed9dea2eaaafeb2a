//! What every layer needs and no layer owns: text, numbers, checks, locks.
//!
//! Owns no state; promises no allocation and no system call of its own; every layer may call it; sits on nothing.

pub mod text;
