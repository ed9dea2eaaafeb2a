//! The allocator's config file as this tool reads it.
//!
//! Owns the reading: no more than the library reads, and never waiting for somebody to write. `settings`
//! takes the content apart.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use vcmalloc_core::options::FILE_ROOM;

/// The beginning of the file, up to the room that the library has for it. A pipe, a folder or a device is an
/// error; all but the null device, by which people say that they want no file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::metadata(path)?;
    let null_device = libc::makedev(1, 3);
    if !file.is_file() && file.rdev() != null_device {
        return Err(io::Error::other("it is not a regular file"));
    }
    // Without waiting: something else may have taken the file's place since.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut content = Vec::new();
    file.take(FILE_ROOM as u64).read_to_end(&mut content)?;
    Ok(content)
}
