//! Answers of the tree that many names give: a figure, of the whole or of one arena, or why there is none.

use super::arenas::{self, ALL};
use super::figures::{self, Figure};
use super::io::{Numbers, Value};
use super::sizes;
use super::{decay, threads};
use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use libc::{EAGAIN, ENOENT};
use vcmalloc_core::class::SizeClass;

pub fn size(bytes: usize) -> Value {
    Value::Word(bytes as u64)
}

pub fn place(count: &'static AtomicU64) -> Value {
    Value::Word(count.as_ptr().expose_provenance() as u64)
}

pub fn bin(number: usize) -> Result<SizeClass, c_int> {
    sizes::bin(number).ok_or(ENOENT)
}

/// A figure that may not be had where a handler interrupted the heap.
pub fn known(figure: Option<u64>) -> Result<Value, c_int> {
    figure.map(Value::Word).ok_or(EAGAIN)
}

pub fn figure(figure: Figure) -> Result<Value, c_int> {
    known(figures::get(figure))
}

pub fn of_arena(at: &Numbers, figure: fn(&figures::Arena) -> u64) -> Result<Value, c_int> {
    known(figures::arena(at.first).map(|arena| figure(&arena)))
}

/// Of tenants' heaps caches and spans are not told apart.
pub fn cached(at: &Numbers) -> Result<Value, c_int> {
    figures::arena(at.first).ok_or(EAGAIN)?.cached.map(Value::Word).ok_or(ENOENT)
}

pub fn time(at: &Numbers, is_dirty: bool) -> Value {
    let time = if at.first == ALL { decay::of_new(is_dirty) } else { decay::of(at.first, is_dirty) };
    Value::Word(time as u64)
}

pub fn thread_count(at: &Numbers) -> Result<Value, c_int> {
    let of_own = || threads::of_own_heap().ok_or(ENOENT);
    Ok(Value::U32(match at.first {
        0 => of_own()?,
        ALL => of_own()? + (1..arenas::count()).map(arenas::threads).sum::<u32>(),
        number => arenas::threads(number),
    }))
}

/// Pages go to the system from all heaps together.
pub fn purged(at: &Numbers) -> Result<Value, c_int> {
    if at.first == ALL { Ok(Value::Word(figures::purged())) } else { Err(ENOENT) }
}
