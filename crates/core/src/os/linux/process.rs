//! This process: environment, name, end.

use super::files;
use core::ffi::{CStr, c_char};

pub(super) fn process_number() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_getpid) as u64 }
}

pub(super) fn parent_number() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::syscall(libc::SYS_getppid) as u64 }
}

/// Ends this process without a word, as a child does that cannot start its program.
pub(super) fn leave() -> ! {
    // SAFETY: ends the process; nothing of it is used any more.
    unsafe { libc::_exit(127) }
}

pub(super) fn is_privileged() -> bool {
    // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

pub(super) fn each_variable(take: &mut dyn FnMut(&[u8], &[u8])) {
    // SAFETY: `environ` is null before libc is set up and then a null-terminated array of C strings; nobody
    // changes it while the process starts, which is when this is called.
    unsafe {
        if environ.is_null() {
            return each_variable_of_procfs(take);
        }
        let mut entry = environ;
        while !(*entry).is_null() {
            take_entry(CStr::from_ptr(*entry).to_bytes(), take);
            entry = entry.add(1);
        }
    }
}

/// The dynamic linker may allocate before libc knows the environment. Apart, for its two pages of stack.
#[cold]
#[inline(never)]
fn each_variable_of_procfs(take: &mut dyn FnMut(&[u8], &[u8])) {
    let mut content = [0u8; 8192];
    if let Ok(length) = files::read(c"/proc/self/environ", &mut content) {
        content
            .get(..length)
            .unwrap_or(&[])
            .split(|byte| *byte == 0)
            .for_each(|entry| take_entry(entry, take));
    }
}

fn take_entry(entry: &[u8], take: &mut dyn FnMut(&[u8], &[u8])) {
    let mut halves = entry.splitn(2, |byte| *byte == b'=');
    if let (Some(name), Some(value)) = (halves.next(), halves.next()) {
        take(name, value);
    }
}

pub(super) fn program_name(buffer: &mut [u8]) -> usize {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len()).min(buffer.len());
    for (to, from) in buffer.iter_mut().zip(name.iter().take(length)) {
        *to = *from;
    }
    length
}
pub(super) fn abort() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
