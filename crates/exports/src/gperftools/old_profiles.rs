//! The files of an earlier run, which HEAPPROFILE's own would mix with. gperftools removes them at the start, too.

use core::ffi::CStr;
use vcmalloc_core::base::text::{Buffer, Sink};

/// Of a profile's files.
pub const LONGEST_PREFIX: usize = 1000;

/// Removes PREFIX.*.heap: names, not what a link of such a name leads to.
pub fn remove(prefix: &[u8]) {
    // SAFETY: called when the library is loaded, where nobody changes the environment.
    let told = unsafe { libc::getenv(c"HEAP_PROFILE_CLEANUP".as_ptr()) };
    // SAFETY: a C string, where there is one.
    if !told.is_null() && !unsafe { b"tTyY1\0".contains(&told.cast::<u8>().read()) } {
        return;
    }
    let cut = prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, name) = prefix.split_at_checked(cut).unwrap_or((&[], prefix));
    let mut path = [0u8; LONGEST_PREFIX + 1];
    let mut text = Buffer::new(&mut path);
    text.put(if folder.is_empty() { b"./" } else { folder });
    text.put(&[0]);
    let Ok(folder) = CStr::from_bytes_until_nul(&path) else { return };
    // SAFETY: a C string; the folder is closed below, and each entry is valid until the next is read.
    unsafe {
        let folder = libc::opendir(folder.as_ptr());
        if folder.is_null() {
            return;
        }
        loop {
            let entry = libc::readdir(folder);
            if entry.is_null() {
                break;
            }
            let found = CStr::from_ptr((*entry).d_name.as_ptr());
            if is_of(name, found.to_bytes()) {
                libc::unlinkat(libc::dirfd(folder), found.as_ptr(), 0);
            }
        }
        libc::closedir(folder);
    }
}

fn is_of(name: &[u8], found: &[u8]) -> bool {
    found
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with(b".") && rest.ends_with(b".heap") && rest != b".heap")
}
