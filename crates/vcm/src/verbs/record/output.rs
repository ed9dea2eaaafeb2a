//! The file of a recording, which has its name once there is something to keep.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;
use vcm_foreign::Shown;

pub struct Output {
    path: PathBuf,
    /// What stands in its place until it is kept, and goes when it is not; none of a device or a pipe.
    temporary: Option<TempPath>,
}

impl Output {
    pub fn create(path: PathBuf) -> io::Result<(Output, File)> {
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok((Output { path, temporary: None }, file));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The process's mask applies, as to any file.
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(".vcm-record-").permissions(Permissions::from_mode(0o666));
        let (file, temporary) = builder.tempfile_in(folder)?.into_parts();
        Ok((Output { path, temporary: Some(temporary) }, file))
    }

    pub fn shown(&self) -> String {
        self.path.shown().to_string()
    }

    /// What can be read again.
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
    fn a_device_stays_where_it_is() {
        let (output, _) = Output::create("/dev/null".into()).unwrap();
        output.keep().unwrap();
        drop(Output::create("/dev/null".into()).unwrap());
        assert!(Path::new("/dev/null").exists());
    }
}
