//! The file of a recording, which has its name once there is something to keep.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;
use vcm_foreign::{Shown, file};
use vcm_front::say::line;

/// The ending of the name of a recording that goes on.
const PARTIAL: &str = ".partial";

/// Takes the file's lock, which ends with who has it; false where another one has it.
fn is_locked(file: &File) -> bool {
    // SAFETY: the descriptor is open.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Names what recordings into the same file have left that were killed.
fn tell_of_others(folder: &Path, begin: &OsStr) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |name: &OsString| {
        let name = name.as_bytes();
        name.starts_with(begin.as_bytes()) && name.ends_with(PARTIAL.as_bytes())
    };
    for name in entries.map(|entry| entry.file_name()).filter(is_one) {
        let left = folder.join(&name);
        if file::open(&left).is_ok_and(|file| is_locked(&file)) {
            let shown = left.strip_prefix(".").unwrap_or(&left).shown();
            line(&format!("vcm: {shown} is from a killed recording; 'vcm trace info' reads it"));
        }
    }
}

/// The error of the system, which comes with the temporary name.
fn without_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((words, _)) => io::Error::new(error.kind(), words),
        None => error,
    }
}

pub struct Output {
    path: PathBuf,
    /// The file that stands in its place until it is kept, and goes when it is not; none of a device or a pipe.
    temporary: Option<TempPath>,
}

impl Output {
    pub fn create(path: PathBuf) -> io::Result<(Output, File)> {
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok((Output { path, temporary: None }, file));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut begin = path.file_name().unwrap_or_default().to_owned();
        begin.push(".");
        tell_of_others(folder, &begin);
        // The process's mask applies, as to any file. A killed tool leaves a file whose name tells that it is partial.
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(&begin).suffix(PARTIAL).permissions(Permissions::from_mode(0o666));
        let made = builder.tempfile_in(folder).map_err(without_name)?;
        let (file, temporary) = made.into_parts();
        is_locked(&file);
        Ok((Output { path, temporary: Some(temporary) }, file))
    }

    pub fn shown(&self) -> String {
        self.path.shown().to_string()
    }

    /// True if it can be read again.
    pub fn is_file(&self) -> bool {
        self.temporary.is_some()
    }

    pub fn keep(self) -> io::Result<()> {
        match self.temporary {
            Some(temporary) => temporary.persist(&self.path).map_err(|error| error.error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_replaced_when_kept_and_untouched_when_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.vct");
        fs::write(&path, "before").unwrap();
        let (output, mut file) = Output::create(path.clone()).unwrap();
        file.write_all(b"never kept").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        let (output, mut file) = Output::create(path.clone()).unwrap();
        file.write_all(b"after").unwrap();
        output.keep().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_kept_yet_has_a_name_that_says_what_it_is_and_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let (output, file) = Output::create(folder.path().join("a.vct")).unwrap();
        let names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.iter().all(|name| name.starts_with("a.vct.") && name.ends_with(PARTIAL)), "{names:?}");
        let again = file::open(&folder.path().join(&names[0])).unwrap();
        assert!(!is_locked(&again));
        drop(file);
        assert!(is_locked(&again), "its recording is no more");
        drop(output);
    }

    #[test]
    fn a_file_that_cannot_be_made_is_told_without_the_name_that_nobody_typed() {
        let error = Output::create("/nonexistent/a.vct".into()).err().unwrap();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }

    #[test]
    fn a_device_stays_where_it_is() {
        let (output, _) = Output::create("/dev/null".into()).unwrap();
        output.keep().unwrap();
        drop(Output::create("/dev/null".into()).unwrap());
        assert!(Path::new("/dev/null").exists());
    }
}
