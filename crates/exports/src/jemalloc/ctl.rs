//! mallctl, mallctlnametomib and mallctlbymib.

use super::io::{Io, Outcome};
use super::names::{Act, Row};
use super::rows;
use super::say::{self, say};
use super::tree::{self, Place};
use crate::c::Name;
use core::ffi::{CStr, c_int, c_void};
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::{EINVAL, ENOENT};

/// Rows whose lack of an answer was told.
static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn answer(found: Option<Place>, io: &Io) -> Outcome {
    let found = found.ok_or(ENOENT)?;
    let row = found.whole().ok_or(ENOENT)?;
    match row.act {
        Act::Get(get) => {
            io.read_only()?;
            io.give(get(&found.numbers)?)
        }
        Act::Call(call) => {
            io.neither()?;
            call(&found.numbers)
        }
        Act::Own(own) => own(&found.numbers, io),
        Act::Opt(name) => {
            let value = rows::option(name).inspect_err(|_| tell(found.row, row, "it has no value here"))?;
            io.read_only()?;
            io.give(value)
        }
        Act::Absent(reason) => {
            tell(found.row, row, reason);
            Err(ENOENT)
        }
    }
}

/// Names a row without an answer, once, where the program was started with `confirm_conf:true`.
fn tell(number: usize, row: &Row, reason: &str) {
    let bit = 1 << (number % 64);
    if say::IS_VERBOSE.load(Ordering::Relaxed)
        && TOLD.get(number / 64).is_some_and(|told| told.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    {
        say(&[b"mallctl(\"", row.name.as_bytes(), b"\") has no answer: ", reason.as_bytes()]);
    }
}

fn number_of(outcome: Outcome) -> c_int {
    outcome.err().unwrap_or(0)
}

/// # Safety
/// `name` is a C string or null; each other pointer is null, or valid as the manual has it.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub unsafe extern "C" fn mallctl(
    name: Name,
    old: *mut c_void,
    old_length: *mut usize,
    new: *mut c_void,
    new_length: usize,
) -> c_int {
    if name.is_null() {
        return EINVAL;
    }
    // SAFETY: by the caller's promise.
    let (name, io) = unsafe { (CStr::from_ptr(name), Io::new(old, old_length, new, new_length)) };
    number_of(answer(tree::find(name.to_bytes()), &io))
}

/// # Safety
/// `name` is a C string or null; `length` is null or valid, and `mib` null or of so many words.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub unsafe extern "C" fn mallctlnametomib(name: Name, mib: *mut usize, length: *mut usize) -> c_int {
    if name.is_null() || mib.is_null() || length.is_null() {
        return EINVAL;
    }
    // SAFETY: by the caller's promise.
    let (name, room) = unsafe { (CStr::from_ptr(name), length.read_unaligned()) };
    let Some(found) = tree::find(name.to_bytes()) else { return ENOENT };
    found.put(&mut |part, place| {
        if part < room {
            // SAFETY: by the caller's promise there is room for so many.
            unsafe { mib.add(part).write_unaligned(place) };
        }
    });
    // SAFETY: by the caller's promise.
    unsafe { length.write_unaligned(found.parts.min(room)) };
    0
}

/// # Safety
/// `mib` is null or has so many words; each other pointer is null, or valid as the manual has it.
#[cfg_attr(not(prefixed), unsafe(no_mangle))]
pub unsafe extern "C" fn mallctlbymib(
    mib: *const usize,
    length: usize,
    old: *mut c_void,
    old_length: *mut usize,
    new: *mut c_void,
    new_length: usize,
) -> c_int {
    if mib.is_null() {
        return EINVAL;
    }
    // No name has so many parts, and a length that is none may be as long as memory.
    if length > tree::DEPTH || !mib.is_aligned() {
        return ENOENT;
    }
    // SAFETY: by the caller's promise.
    let (mib, io) =
        unsafe { (slice::from_raw_parts(mib, length), Io::new(old, old_length, new, new_length)) };
    number_of(answer(tree::at(mib), &io))
}
