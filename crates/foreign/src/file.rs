//! Files that a foreigner may have made: in the root of a container, or named by somebody.
//!
//! Only regular files are opened: a FIFO would wait for a writer, a device may do anything. Nothing is read beyond a
//! bound, whatever length a file claims. A file system that answers late (FUSE, NFS) still makes its reader wait
//! (docs/reference/limits.md).

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// No configuration, and nothing that the kernel says of a process but its mappings, is longer.
pub const MOST: u64 = 1 << 20;
/// Of what the kernel says of a process's mappings: 65,530 lines, some with a path of 4 KiB; and of its environment.
pub const MOST_OF_KERNEL: u64 = 64 << 20;

/// Opens a regular file to read it. Anything else is refused before it is opened, which may have an effect, and after.
pub fn open(path: &Path) -> io::Result<File> {
    refuse_others(fs::metadata(path)?.file_type())?;
    open_at_once(path)
}

fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    refuse_others(file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_others(kind: FileType) -> io::Result<()> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        // The kernel's own word for it.
        kind if kind.is_dir() => return Err(Error::from_raw_os_error(libc::EISDIR)),
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a file")))
}

/// All of a file, if it is no longer than a configuration may be.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, MOST)
}

/// All of a file, if it is no longer than this.
pub fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

fn whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let bytes = begin_of(file, most.saturating_add(1))?;
    if bytes.len() as u64 > most {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is longer than {} KiB", most >> 10)));
    }
    Ok(bytes)
}

/// A file of procfs or sysfs. There are thousands, so no second call asks first what kind of file it is.
pub fn of_kernel(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_at_once(path)?;
    whole(file, MOST_OF_KERNEL)
}

/// The first bytes of a file, so many at most.
pub fn begin(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    begin_of(open(path)?, most)
}

/// In few reads: the kernel gives a page of text for each, where there is room for one.
fn begin_of(mut file: File, most: u64) -> io::Result<Vec<u8>> {
    const STEP: usize = 16 << 10;
    let (mut bytes, mut filled) = (Vec::new(), 0);
    while (filled as u64) < most {
        if bytes.len() - filled < STEP / 2 {
            bytes.try_reserve(STEP.max(bytes.len())).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
            bytes.resize(bytes.capacity(), 0);
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX).min(filled));
    bytes.shrink_to(filled.next_multiple_of(4096));
    Ok(bytes)
}

/// As text; an error where it is none.
pub fn text(path: &Path) -> io::Result<String> {
    as_text(read(path)?)
}

pub fn text_of_kernel(path: &Path) -> io::Result<String> {
    as_text(of_kernel(path)?)
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_fifo_a_device_and_a_folder_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&fifo).unwrap_err().to_string(), "it is a FIFO, not a file");
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().to_string(), "it is a device, not a file");
        assert_eq!(read(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_whatever_length_it_claims() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(50 << 30).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(begin(&path, 100).unwrap(), [0; 100]);
        File::create(&path).unwrap().set_len(MOST).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, MOST);
    }

    #[test]
    fn what_the_kernel_says_of_a_process_is_read() {
        assert!(!of_kernel(Path::new("/proc/self/maps")).unwrap().is_empty());
        assert!(text_of_kernel(Path::new("/proc/self/status")).unwrap().starts_with("Name:"));
    }
}
