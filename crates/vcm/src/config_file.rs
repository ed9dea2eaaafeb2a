//! The allocator's config file as this tool finds and reads it.
//!
//! Owns its place and the reading: no more than the library reads, only for a process that may read it too,
//! and never waiting for somebody to write. `settings` takes the content apart.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vcm_inspect::process::Process;
use vcmalloc_core::options::{CONFIG_FILE, FILE_ROOM};

pub const CONFIG_VARIABLE: &str = "VCM_CONFIG";

/// The one that is read unless `VCM_CONFIG` names another.
pub fn default_path() -> &'static Path {
    Path::new(OsStr::from_bytes(CONFIG_FILE.to_bytes()))
}

/// The fault of a file that the process was kept from.
pub const MAY_NOT_READ: &str = "the process may not read it, so it has no effect";

pub struct ConfigFile {
    /// Our path of it.
    pub path: PathBuf,
    /// Somebody named it, so that it is worth a warning when it is missing.
    pub asked_for: bool,
    /// False where the process that it is for was kept from it.
    pub may_be_read: bool,
}

impl ConfigFile {
    pub fn named(path: impl Into<PathBuf>) -> Self {
        ConfigFile { path: path.into(), asked_for: true, may_be_read: true }
    }

    /// Nobody named it: read where it is there.
    pub fn found(path: impl Into<PathBuf>) -> Self {
        ConfigFile { asked_for: false, ..Self::named(path) }
    }

    /// The one that a program with this environment reads.
    pub fn of(environment: &[(OsString, OsString)]) -> Self {
        match environment.iter().find(|(name, _)| name == CONFIG_VARIABLE) {
            Some((_, path)) if !path.is_empty() => Self::named(path),
            _ => Self::found(default_path()),
        }
    }

    /// The one that the process has read. Its path is ours; `of` has what the process calls it.
    pub fn of_process(process: &Process, environment: &[(OsString, OsString)]) -> Self {
        let file = Self::of(environment);
        // If that is not known, root's view of the file is the best there is.
        let may_be_read = process.could_read(&file.path) != Some(false);
        ConfigFile { path: process.as_seen_by_it(&file.path), may_be_read, ..file }
    }
}

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
