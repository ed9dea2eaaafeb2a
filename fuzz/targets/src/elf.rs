//! An object file of any bytes: what it is, or an error.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

use vcm_inspect::elf::{Among, Depth, Look, look, offset_of};

pub fn run(input: &[u8]) {
    let name = CString::new("elf").expect("no zero in it");
    // SAFETY: the name ends with a zero; the descriptor is nobody else's.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        assert!(descriptor >= 0);
        File::from_raw_fd(descriptor)
    };
    file.write_all(input).expect("written");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = Path::new(&path);
    if let Ok(Look::Elf(elf)) = look(path, Depth::AllSymbols) {
        let hidden = |name: &String| name.chars().any(vcm_foreign::is_hidden);
        assert!(!elf.needed.iter().chain(elf.soname.as_ref()).any(hidden));
    }
    let _ = offset_of(path, &["environ"], Among::All);
}
