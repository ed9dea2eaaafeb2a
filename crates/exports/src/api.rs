//! The C API of vcmalloc.h.

use super::c::{Name, undisturbed};
use super::{Blocks, blocks, heap, version};
use core::ffi::{CStr, c_char, c_int};
use core::slice;
use vcmalloc_core::base::text::{Buffer, Sink};
use vcmalloc_core::options::{self, Refused};

#[unsafe(no_mangle)]
pub extern "C" fn vcm_version() -> Name {
    version::c_string()
}

/// # Safety
/// Both are C strings or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_option_set(name: Name, value: Name) -> c_int {
    if name.is_null() || value.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: by the caller's promise.
    let (name, value) = unsafe { (CStr::from_ptr(name).to_bytes(), CStr::from_ptr(value).to_bytes()) };
    match undisturbed(|| heap().set_option(name, value).inspect(|()| obey_janitor_option())) {
        Ok(()) => 0,
        Err(Refused::UnknownName) => libc::ENOENT,
        Err(Refused::BadValue(_)) => libc::EINVAL,
        Err(Refused::NotLive) => libc::EPERM,
    }
}

fn obey_janitor_option() {
    #[cfg(shared)]
    super::threads::obey_option();
    #[cfg(not(shared))]
    super::janitor::end_if_off();
}

/// # Safety
/// `name` is a C string or null; `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_option_get(name: Name, buffer: *mut c_char, length: usize) -> c_int {
    if name.is_null() {
        return -1;
    }
    // SAFETY: by the caller's promise.
    let Some(id) = options::find(unsafe { CStr::from_ptr(name) }.to_bytes()) else { return -1 };
    // SAFETY: by the caller's promise.
    let needed = unsafe { written(buffer, length, |sink| heap().options.put(sink, id)) };
    c_int::try_from(needed).unwrap_or(c_int::MAX)
}

/// Lets `write` fill a caller's buffer, ends it with a zero and returns the length that the whole text needs.
///
/// # Safety
/// `buffer` has room for `length` bytes, or `length` is 0.
unsafe fn written(buffer: *mut c_char, length: usize, write: impl FnOnce(&mut dyn Sink)) -> usize {
    let room: &mut [u8] = if length == 0 || buffer.is_null() {
        &mut []
    } else {
        // SAFETY: by the caller's promise.
        unsafe { slice::from_raw_parts_mut(buffer.cast(), length) }
    };
    let text_room = room.len().saturating_sub(1);
    let (text, end) = room.split_at_mut_checked(text_room).unwrap_or((&mut [], &mut []));
    let mut sink = Buffer::new(text);
    write(&mut sink);
    let offered = sink.offered();
    match text.get_mut(offered) {
        Some(after) => *after = 0,
        None => end.iter_mut().for_each(|byte| *byte = 0),
    }
    offered
}

/// # Safety
/// `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_options_text(buffer: *mut c_char, length: usize) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { written(buffer, length, |sink| undisturbed(|| heap().put_options(sink))) }
}

/// # Safety
/// `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_stats_text(buffer: *mut c_char, length: usize) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { written(buffer, length, |sink| undisturbed(|| version::put_statistics(sink))) }
}

/// # Safety
/// `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_stats_json(buffer: *mut c_char, length: usize) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { written(buffer, length, |sink| undisturbed(|| heap().put_stats_json(sink))) }
}

/// # Safety
/// `key` is a C string or null; `value` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_stats_get(key: Name, value: *mut u64) -> c_int {
    if key.is_null() || value.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: by the caller's promise.
    match undisturbed(|| heap().stats()).get(unsafe { CStr::from_ptr(key) }.to_bytes()) {
        Some(figure) => {
            // SAFETY: by the caller's promise.
            unsafe { *value = figure };
            0
        }
        None => libc::ENOENT,
    }
}

/// Gives free memory back to the system until at most `keep` bytes of it are left; returns the bytes given.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_release(keep: usize) -> usize {
    undisturbed(|| blocks().release(keep))
}

/// Does what `vcm_release` does, and writes a report of the memory that went and of what holds the rest.
///
/// # Safety
/// `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_release_text(keep: usize, buffer: *mut c_char, length: usize) -> usize {
    let given = vcm_release(keep);
    // SAFETY: by the caller's promise.
    unsafe { written(buffer, length, |sink| undisturbed(|| heap().put_release_report(sink, given))) }
}

/// Sets the function that is called when `memory_limit` was passed, with the heap's bytes in memory and the
/// limit.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_on_pressure(callback: Option<extern "C" fn(usize, usize)>) {
    heap().on_pressure(callback);
}

/// Starts the live heap profile anew; 0, or `ENOMEM` where there is no memory for its tables.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_profile_start(interval: usize) -> c_int {
    if undisturbed(|| heap().start_profile(interval as u64)) { 0 } else { libc::ENOMEM }
}

/// Ends the profile; it can be written until the next start.
#[unsafe(no_mangle)]
pub extern "C" fn vcm_profile_stop() {
    heap().stop_profile();
}

/// # Safety
/// `path` is a C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vcm_profile_write(path: Name) -> c_int {
    if path.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: by the caller's promise.
    if undisturbed(|| heap().write_profile(unsafe { CStr::from_ptr(path) })) { 0 } else { libc::EIO }
}
