//! Shared memory: for what two processes look at, and for the load program's own tables.
//!
//! A shared mapping is not part of any heap, and /proc/PID/smaps shows it as a file (`/memfd:...` or
//! `/dev/zero`). So everything of the load program that is not the heap under test lives in such mappings and
//! counts apart.

use anyhow::{Context, Result, ensure};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Memory with a descriptor that a child inherits under the same number. Mapped until the process ends.
pub struct Shared {
    file: OwnedFd,
    pub bytes: &'static [u8],
}

impl Shared {
    /// A zeroed file in memory of `length` bytes.
    pub fn create(length: usize) -> Result<Self> {
        // SAFETY: the name is a C string; without MFD_CLOEXEC, so that children inherit it.
        let number = unsafe { libc::memfd_create(c"vcm-memory".as_ptr(), 0) };
        ensure!(number >= 0, "no file in memory: {}", std::io::Error::last_os_error());
        // SAFETY: the number is new and nobody else's.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(number) });
        file.set_len(length as u64).context("cannot size a file in memory")?;
        Ok(Self { bytes: map(file.as_raw_fd(), length)?, file: file.into() })
    }

    /// The descriptor, as a child finds it.
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn address(&self) -> *mut u8 {
        self.bytes.as_ptr().cast_mut()
    }
}

/// The memory that the parent shared under this descriptor, in its whole length.
pub fn inherited(number: RawFd) -> Result<&'static [u8]> {
    // SAFETY: all zero is a valid stat, and fstat fills it.
    let length = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        ensure!(libc::fstat(number, &mut about) == 0, "descriptor {number} was not inherited");
        about.st_size as usize
    };
    map(number, length)
}

fn map(number: RawFd, length: usize) -> Result<&'static [u8]> {
    let start = map_shared(length, number, libc::MAP_SHARED);
    ensure!(!start.is_null(), "cannot map {length} shared bytes: {}", std::io::Error::last_os_error());
    // SAFETY: mapped readable just now and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// A zeroed array of the load program, until the process ends. It becomes resident as it is written.
///
/// # Safety
/// A `T` of all zero bytes is valid.
pub unsafe fn zeroed_array<T>(count: usize) -> &'static mut [T] {
    let bytes = (count * size_of::<T>()).max(1);
    let start = map_shared(bytes, -1, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    if start.is_null() {
        eprintln!("vcm-memory-load: the kernel refused {bytes} bytes for the load program's own tables");
        std::process::exit(3);
    }
    // SAFETY: page-aligned, long enough, zero is valid as the caller promises, and nobody else knows the
    // address.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), count) }
}

/// Null if the kernel refuses.
fn map_shared(length: usize, number: RawFd, kind: libc::c_int) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, number, 0) };
    if start == libc::MAP_FAILED { std::ptr::null_mut() } else { start.cast() }
}
