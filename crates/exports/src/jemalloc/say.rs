//! Lines for the operator: through the program's `malloc_message`, where it has set one, else on stderr.

use crate::c::Name;
use crate::{heap, moved};
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use vcmalloc_core::base::text::{Buffer, Sink, put_str};
use vcmalloc_core::os::Os;

/// The program's configuration; its own variable of this name comes before it.
#[cfg(not(tikv))]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static malloc_conf: AtomicPtr<i8> = AtomicPtr::new(core::ptr::null_mut());

pub type Message = extern "C" fn(*mut c_void, Name);

/// The function that gets each line; the program's own variable of this name comes before it.
#[cfg(not(tikv))]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static malloc_message: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

// Weak ones of tikv/variables.S, if the program has none.
#[cfg(tikv)]
unsafe extern "C" {
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_conf")]
    static malloc_conf: AtomicPtr<i8>;
    #[cfg_attr(prefixed, link_name = "_rjem_malloc_message")]
    static malloc_message: AtomicPtr<c_void>;
}

/// The variable that program and library both may have: the one that the loader finds first. In a program that links us there is one.
fn found(name: &CStr) -> *mut c_void {
    if cfg!(tikv) { core::ptr::null_mut() } else { moved::find(libc::RTLD_DEFAULT, name) }
}

fn variable(name: &CStr, own: *const c_void) -> *mut c_void {
    let found = found(name);
    let place = if found.is_null() { own } else { found.cast_const() };
    // SAFETY: both are places of a pointer, which live as long as the process.
    unsafe { place.cast::<*mut c_void>().read_volatile() }
}

/// The string that `malloc_conf` leads to.
pub fn conf_of_program() -> Option<&'static CStr> {
    let value = variable(c"malloc_conf", (&raw const malloc_conf).cast());
    // SAFETY: by the program's promise a C string that stays.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value.cast()) })
}

/// The program's function, looked up once the library is loaded: later the loader's lock may be held.
static PLACE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

pub fn find_message() {
    PLACE.store(found(c"malloc_message"), Ordering::Relaxed);
}

fn message() -> Option<Message> {
    let place = PLACE.load(Ordering::Relaxed);
    let place =
        if place.is_null() { (&raw const malloc_message).cast::<c_void>() } else { place.cast_const() };
    // SAFETY: a pointer to a function of this type, or null, which is None.
    unsafe { place.cast::<Option<Message>>().read_volatile() }
}

/// Hands on one piece of text that ends with a zero.
pub fn hand_on(callback: Option<Message>, argument: *mut c_void, text: &CStr) {
    match callback.or_else(message) {
        Some(callback) => callback(argument, text.as_ptr()),
        None => heap().os().write(2, text.to_bytes()),
    }
}

/// One line. Of a long part its beginning is told, so that the reason has its place behind it.
pub fn say(parts: &[&[u8]]) {
    const ROOM: usize = 1024;
    const OF_A_PART: usize = 256;
    let mut line = [0u8; ROOM];
    // The last byte stays zero, and the end of the line has its place.
    let mut buffer = Buffer::new(line.get_mut(..ROOM - 2).unwrap_or(&mut []));
    put_str(&mut buffer, "vcmalloc: ");
    for part in parts {
        match part.get(..OF_A_PART) {
            Some(beginning) if part.len() > OF_A_PART => {
                buffer.put(beginning);
                put_str(&mut buffer, "...");
            }
            _ => buffer.put(part),
        }
    }
    let length = buffer.as_bytes().len();
    if let Some(end) = line.get_mut(length) {
        *end = b'\n';
    }
    if let Ok(text) = CStr::from_bytes_until_nul(&line) {
        hand_on(None, core::ptr::null_mut(), text);
    }
}

/// Set by `confirm_conf:true`: each name without an answer is told once.
pub static IS_VERBOSE: AtomicBool = AtomicBool::new(false);
